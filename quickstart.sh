#!/usr/bin/env bash
# From nothing to a model that has read a book: installs what is missing, builds, takes the King
# James text from its Debian package, trains examples/quickstart.yaml on 4 ranks, draws the curve
# and lets the model write 300 bytes. What exists already is used again.
set -uo pipefail
cd "$(dirname "$0")" || exit 2

book=out/king-james.txt
run=out/quickstart
axonn=build/release/axonn
log=build/quickstart.log

say() {
    printf '\n== %s\n' "$*"
}

die() {
    echo "quickstart.sh: $*" >&2
    exit 1
}

# quietly COMMAND...: its words only where it fails.
quietly() {
    "$@" >"$log" 2>&1 </dev/null || { tail -n 40 "$log" >&2 && die "this failed: $*"; }
}

build() {
    mkdir -p build out
    quietly cmake --preset release
    quietly cmake --build --preset release --target axonn
    $axonn info
}

# Verses a line, all of them; the number of columns would break lines.
print_book() {
    env -u COLUMNS bible -f Gen1:1-Rev22:21 </dev/null | tr -d '\r\f'
}

make_book() {
    if [ ! -s $book ]; then
        print_book >$book.new || die "the program 'bible' (package bible-kjv) did not print its text"
        [ "$(wc -c <$book.new)" -gt 4000000 ] || die "$book.new is too short for the whole text"
        mv $book.new $book
    fi
    echo "$book: $(wc -c <$book) bytes; gzip -9 needs $(gzip_bits) bits a byte"
}

gzip_bits() {
    awk -v packed="$(gzip -9 -c $book | wc -c)" -v plain="$(wc -c <$book)" \
        'BEGIN { printf "%.3f", 8 * packed / plain }'
}

# A run that was cut goes on; one that is done says so and costs nothing.
train() {
    local resume=
    [ -e $run/config.yaml ] && resume=train.resume=auto
    [ -z "$resume" ] || echo "$run is there: it goes on, or is done; to train anew: rm -r $run"
    echo "$axonn train --config examples/quickstart.yaml $resume"
    $axonn train --config examples/quickstart.yaml $resume
    case $? in
    0) ;;
    75 | 130)
        echo "quickstart.sh: stopped, and saved; start it again to go on" >&2
        exit 75
        ;;
    *) die "the training failed" ;;
    esac
}

# Bits a byte over steps, the mean of each column's steps: text, 64 columns wide.
draw_curve() {
    awk -v columns=64 -v lines=14 '
        function number(key,    at) {
            if (!match($0, "\"" key "\":[-+.e0-9]+")) return -1
            at = RSTART + length(key) + 3
            return substr($0, at, RSTART + RLENGTH - at) + 0
        }
        number("step") > 0 && number("loss") >= 0 {
            loss[++n] = number("loss") / log(2)
        }
        number("valid_loss") >= 0 { held_out = number("valid_loss") / log(2) }
        END {
            if (n < 2) exit
            if (n < columns) columns = n
            low = 1e9
            for (i = 1; i <= n; i++) {
                c = int((i - 1) * columns / n)
                sum[c] += loss[i]; count[c]++
            }
            for (c = 0; c < columns; c++) {
                mean[c] = sum[c] / count[c]
                if (mean[c] < low) low = mean[c]
                if (mean[c] > high) high = mean[c]
            }
            step = (high - low) / (lines - 1)
            if (step <= 0) step = 1
            print "bits per byte"
            for (l = lines - 1; l >= 0; l--) {
                row = ""
                for (c = 0; c < columns; c++)
                    row = row (int((mean[c] - low) / step + 0.5) == l ? "*" : " ")
                sub(/ +$/, "", row)
                printf "%6.2f |%s\n", low + l * step, row
            }
            line = sprintf("%" columns "s", ""); gsub(/ /, "-", line)
            printf "       +%s\n        step 1%*d\n", line, columns - 6, n
            if (held_out) printf "held out: %.3f bits per byte\n", held_out
        }' $run/metrics.jsonl
}

write() {
    $axonn generate -q model.init=$run generate.tokens=300 generate.temperature=0.7 \
        'And it came to pass' || die "the model in $run could not be read"
}

say 'Packages'
bash tools/deps.sh build book || exit 1
echo 'nothing is missing'
say 'Build'
build
say 'The book'
make_book
say 'Training: 4 ranks, a few minutes on 2 cores'
train
say 'The curve'
draw_curve
echo "gzip -9:  $(gzip_bits) bits per byte, for the whole book"
say 'What the model writes'
write
say 'Next'
cat <<END
$axonn generate model.init=$run "In the beginning" generate.seed=2
$axonn selftest --ranks 8 --grid x=2,y=2,z=2
mpirun -n 4 $axonn train --config examples/quickstart.yaml train.out=out/quickstart-mpi
END
