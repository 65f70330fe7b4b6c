#!/usr/bin/env bash
# prepare that is cut off: by a full disk, a signal, a kill at any moment. Either the whole pair is
# there or nothing is, and the next run of the same command succeeds.
#     test_prepare_cut.sh AXONN
set -u
# shellcheck source=tests/fault/check.sh
. "$(dirname "$(realpath "$0")")/check.sh"
axonn=$(realpath "$1")
dir=$(mktemp -d)
cd "$dir" || exit 1
trap 'umount "$dir/small" 2>/dev/null; rm -rf "$dir"' EXIT

nothing_left() { [ -z "$(find . -maxdepth 1 -name "*out*")" ]; }
whole() { # the pair holds what its idx says, and no temporary is left
    [ -e out.bin ] && [ -e out.idx ] && [ ! -e .tmp-out.bin ] && [ ! -e out.lock ] &&
        cmp -s out.bin want.bin && cmp -s out.idx want.idx
}

yes '{"text": "a line of many that are the same, for as long as it takes"}' | head -n 400000 >in.jsonl
"$axonn" prepare -q data.train=in.jsonl out=want >log 2>&1
check "the same work without a cut is done" test -s want.idx

for limit in 8 2000 20000; do # KiB: at once, in the ids, near their end
    (ulimit -f $limit; timeout 60 "$axonn" prepare data.train=in.jsonl out=out >log 2>&1)
    check "a limit of $limit KiB ends it" test $? -eq 1
    check "the message names file and reason" grep -q 'tmp-out.bin: cannot write .*File too large' log
    check "nothing is left of it" nothing_left
done

mkdir small
if mount -t tmpfs -o size=1m tmpfs small 2>/dev/null; then
    timeout 60 "$axonn" prepare data.train=in.jsonl out=small/out >log 2>&1
    check "a full disk ends it" test $? -eq 1
    check "the message says so" grep -q 'cannot write .*No space left on device' log
    check "nothing is left on the disk" test -z "$(ls -A small)"
    umount small
else
    echo "skipped a full disk: no right to mount a small one"
fi

for signal in TERM INT; do # a shell's background job ignores INT: hence the setting of its handler
    env --default-signal=INT,TERM "$axonn" prepare data.train=in.jsonl,in.jsonl,in.jsonl out=out \
        >log 2>&1 &
    pid=$!
    while [ ! -e .tmp-out.bin ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
    kill -$signal $pid
    wait $pid
    check "SIG$signal ends it as signals do" test $? -eq $((128 + $(kill -l $signal)))
    check "SIG$signal leaves nothing" nothing_left
done

# Started to ignore them, as by nohup, it goes on to the end.
(trap '' HUP TERM INT; exec "$axonn" prepare data.train=in.jsonl out=out) >log 2>&1 &
pid=$!
while [ ! -e .tmp-out.bin ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -HUP $pid; kill -TERM $pid; kill -INT $pid
wait $pid
check "ignored signals do not end it" test $? -eq 0
check "the pair is whole" whole
rm -f out.bin out.idx

# Two at a time: the second names the first.
"$axonn" prepare data.train=in.jsonl,in.jsonl,in.jsonl out=out >log 2>&1 &
pid=$!
while [ ! -e .tmp-out.bin ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
"$axonn" prepare data.train=in.jsonl out=out >log2 2>&1
status=$?
check "a second one is refused" test $status -eq 2
check "and told who is at work" grep -q "out: in use by process $pid on host" log2
kill -KILL $pid
wait $pid 2>/dev/null
check "a killed one leaves no pair" test ! -e out.bin -a ! -e out.idx

for i in $(seq 12); do # at moments spread over the work, and behind its end
    "$axonn" prepare data.train=in.jsonl out=out >log 2>&1 &
    pid=$!
    sleep "0.$(printf '%02d' $((i * 7)))"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    if [ -e out.idx ]; then
        check "killed after 0.$((i * 7)) s: the pair is whole" cmp -s out.idx want.idx
        rm -f out.bin out.idx
    fi
    rm -f out.bin # of one killed between the two names, which the next run asks to remove
done
rm -f out.bin out.idx
"$axonn" prepare data.train=in.jsonl out=out >log 2>&1
check "the next run takes over" whole
[ $failed -eq 0 ]
