#!/usr/bin/env bash
# A conversion that is killed, or that meets a full disk, leaves no target, or a whole one; what it
# left under other names is gone after the next one.
#     test_cut_conversion.sh AXONN
set -u
# shellcheck source=tests/fault/check.sh
. "$(dirname "$(realpath "$0")")/check.sh"
axonn=$1
dir=$(mktemp -d)
log=$dir/log
trap 'umount "$dir/small" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1

only() { [ "$(ls -A | tr '\n' ' ')" = "$1" ]; }

for i in $(seq 300); do echo "line $i of a text"; done >text
"$axonn" train -q data.train=text model.layers=2 model.hidden=160 model.heads=4 model.seq=32 train.steps=1 \
    train.batch=2 train.out=run data.valid_fraction=0 2>"$log" || exit 1
"$axonn" convert run hf convert.shard_bytes=1M -q >/dev/null 2>"$log" || exit 1
"$axonn" convert hf checkpoint -q >/dev/null 2>"$log" || exit 1
"$axonn" convert checkpoint back convert.shard_bytes=1M -q >/dev/null 2>"$log" || exit 1
check "a model comes back as it went" diff -r hf back
rm -rf back

# ---- a limit on file sizes stands for a full disk
mkdir limited
cd limited || exit 1
for limit in 1 4 100 900; do # KiB: no header, no tensor, some of them, all but the last
    for from in hf checkpoint run; do
        (ulimit -f $limit; exec timeout 60 "$axonn" convert ../$from to --ranks 2 -q) >"$log" 2>&1
        status=$?
        check "$from within $limit KiB: it fails" test $status -eq 1
        check "$from within $limit KiB: it names file and reason" grep -q 'to.*File too large' "$log"
        check "$from within $limit KiB: nothing is left" only ""
        [ $failed -eq 0 ] || exit 1
    done
done
cd ..

# ---- a small file system that is full
mkdir small
if mount -t tmpfs -o size=900k tmpfs small 2>/dev/null; then
    cd small || exit 1
    for from in hf checkpoint; do
        timeout 60 "$axonn" convert ../$from to -q >"$log" 2>&1
        check "$from onto a full disk: it fails" test $? -eq 1
        check "$from onto a full disk: it says so" grep -q 'No space left' "$log"
        check "$from onto a full disk: nothing is left" only ""
    done
    cd ..
    umount small
else
    echo "skipped: no file system can be mounted here; the limits above stand for a full one"
fi

# ---- killed at any moment
mkdir killed
cd killed || exit 1
whole=0 none=0
begun=$(date +%s%N)
"$axonn" convert ../hf to -q >"$log" 2>&1
took=$((($(date +%s%N) - begun) / 1000)) # microseconds
rm -rf to
for i in $(seq 0 39); do
    from=hf want=checkpoint shards=
    [ $((i % 2)) = 0 ] || from=checkpoint want=hf shards=convert.shard_bytes=1M
    "$axonn" convert ../$from to $shards -q >"$log" 2>&1 &
    sleep "$(printf %d.%06d $((took * i / 30 / 1000000)) $((took * i / 30 % 1000000)))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    if [ -e to ]; then
        whole=$((whole + 1))
        diff -rq ../$want to >"$log" || check "kill $i: what has the name is whole" false
        rm -rf to
    else
        none=$((none + 1))
    fi
done
echo "        killed 40 times: $whole whole, $none not there"
"$axonn" convert ../hf to -q >"$log" 2>&1
check "after all that it works" diff -rq ../checkpoint to
check "and nothing else is left" only "to "
[ $failed -eq 0 ]
