#!/usr/bin/env bash
# A run with tuned products that was cut goes on with the ways it had, whatever the user's file says
# by then: bit for bit.
#     test_tuned_resume.sh AXONN
set -u
# shellcheck source=tests/fault/runs.sh
. "$(dirname "$(realpath "$0")")/runs.sh"
export XDG_CACHE_HOME=$dir/cache
cache=cache/axonn/tuning.txt

cat >run.yaml <<'EOT'
model: {layers: 2, hidden: 96, heads: 12, kv_heads: 12, ffn: 192, seq: 32}
data: {train: text.txt, valid_fraction: 0.02, seed: 7}
train: {batch: 32, lr: 1e-2, warmup: 1, threads: 1, precision: fp32, eval_every: 3, log_every: 0, tune: on}
EOT
if "$axonn" info | grep -q 'device *cpu is missing'; then
    echo "no device cpu: there is nothing to tune"
    exit 0
fi
other_files() { ! same_files "$@"; }
make_all() { sed -i -E "s/ f32 f32 [a-z-]+ / f32 f32 $1 /" "$2"; } # WAY FILE
ways() { grep -v '^#' "$1" | cut -d' ' -f10 | sort -u | tr '\n' ' '; }

train --config run.yaml --grid x=2 train.steps=1 train.out=probe
check "the first step of a run is timed" test $status -eq 0
check "the user's file remembers it" test -s $cache
check "so does the run" cmp -s $cache probe/tuning.txt
make_all panels $cache
train --config run.yaml --grid x=2 train.steps=8 train.save_every=4 train.out=whole
check "another run takes what is remembered" test "$(ways whole/tuning.txt)" = "panels "
train --config run.yaml --grid x=2 train.steps=8 train.tune=off train.out=plain
check "which shows in the last bits of its weights" other_files whole/step-00000008 plain/step-00000008
check "and in no other" near "$(loss whole 1)" "$(loss plain 1)"
check "a run that is not tuned keeps no table" test ! -e plain/tuning.txt

cut_run() { # as if killed after step 4
    cp -r whole "$1" && rm -r "$1/step-00000008" && echo step-00000004 >"$1/latest"
}
make_all default $cache
cut_run cut
train train.out=cut train.resume=auto
check "a run that was cut goes on" test $status -eq 0
check "every line of its metrics is the same" same_story whole cut
check "weights and moments are the same bytes" same_files whole/step-00000008 cut/step-00000008
check "its table is what it was" cmp -s whole/tuning.txt cut/tuning.txt

cut_run elsewhere
train train.resume=elsewhere/step-00000004 train.out=moved
check "so does one that goes on in another directory" same_files whole/step-00000008 moved/step-00000008
check "which gets the table" cmp -s whole/tuning.txt moved/tuning.txt

cut_run lost
rm lost/tuning.txt
train train.out=lost train.resume=auto
check "without its table the user's file counts" test "$(ways lost/tuning.txt)" = "default "
check "and the bits are others" other_files whole/step-00000008 lost/step-00000008

# ---- files that cannot be read or written

echo "amd-epyc what is this" >>$cache
train --config run.yaml --grid x=2 train.steps=1
check "a broken line ends no run" test $status -eq 0
check "but is told once" test "$(grep -c 'is no line of a tuned product' log)" -eq 1
rm -r cache && echo "no folder" >cache
train --config run.yaml --grid x=2 train.steps=2 train.out=homeless
check "neither does a user without a place for files" test $status -eq 0
check "which is told" grep -q 'not remembered for the next run' log
check "the run has its table all the same" test -s homeless/tuning.txt
train --config run.yaml device=ref train.precision=auto train.steps=1
check "device=ref refuses to be tuned" test $status -eq 2

[ $failed -eq 0 ]
