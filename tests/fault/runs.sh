# shellcheck shell=bash disable=SC2034
# What the tests of runs share; read by them with `.`, with the program as first argument. They run in
# a directory of their own, where text.txt lies.
# shellcheck source=tests/fault/check.sh
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/check.sh"
axonn=$1
dir=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1

for i in $(seq 1500); do echo "line $i: $((i * i)) is its square"; done >text.txt
train() { # ARGUMENTS...
    timeout 120 "$axonn" train -q "$@" >log 2>&1
    status=$?
}

# What a run told, without the times and the lines that say that it went on.
told() {
    grep -v '^{"run"' "$1/metrics.jsonl" | sed -E 's/"(step_s|[a-z_]*_per_s|share_of_peak|seconds)":[^,}]*,?//g; s/"comm_exposed_s":.*//'
}
same_story() { cmp <(told "$1") <(told "$2") >>log 2>&1; }
same_files() { # DIR DIR
    cmp "$1/model.safetensors" "$2/model.safetensors" >>log 2>&1 &&
        cmp "$1/optimizer.safetensors" "$2/optimizer.safetensors" >>log 2>&1
}
loss() { # RUN STEP
    sed -n "s/^{\"step\":$2,\"loss\":\([^,]*\),.*/\1/p" "$1/metrics.jsonl"
}
near() { # A B: relative difference, fp32
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && b > 0 && d <= 1e-6 * a) }'
}
has_step() { grep -q "^{\"step\":$2," "$1/metrics.jsonl" 2>/dev/null; }
wait_for() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.02
    done
}
