# What train.tune found on this machine. The file is the user's, or another.
$ XDG_CACHE_HOME=$PWD/none axonn info --tuning | sed -E 's,^tuning +.*none/(axonn.*): 0 products on [^ ]+/[^ ]+ with [^ ]+$,\1: nothing,'
| axonn/tuning.txt: nothing
$ axonn info --tuning --json train.tune_file=t | grep -oE '"(machine|library)":"[^"]*"' | cut -d'"' -f4 | tr '\n' ' ' >here; wc -w <here
| 2
$ { echo "# mine"; echo "$(cat here)2 nt 4096 2304 768 f32 f32 rows 0.05 0.06"; echo "another/machine onednn-1 2 nn 1 1 1 f32 f32 rows 1 2"; echo "$(cat here)2 tn 768 768 4096 bf16 f32 default 0.01 0.01"; } >t
$ axonn info --tuning train.tune_file=t | sed -E '1s/ on .*//'
| tuning    t: 2 products
|        m        n        k  mode  in    out   threads  way                      ms     gain
|     4096     2304      768  nt    f32   f32         2  rows                 50.000  +N %
|      768      768     4096  tn    bf16  f32         2  default              10.000   +N %
$ axonn info --json --tuning train.tune_file=t | sed 's/.*"products"/"products"/'
| "products":[{"m":4096,"n":2304,"k":768,"mode":"nt","in":"f32","out":"f32","threads":2,"way":"rows","seconds":N,"default_seconds":0.06,"gain":0.2000},{"m":768,"n":768,"k":4096,"mode":"tn","in":"bf16","out":"f32","threads":2,"way":"default","seconds":N,"default_seconds":0.01,"gain":0.0000}]}
# A line that cannot be read is told, and passed over.
$ echo "what is this" >>t; axonn info --tuning train.tune_file=t | wc -l
| 4
! axonn: warning: t:5 is no line of a tuned product; passed over: its product is timed anew
$ axonn info --tuning device=ref | sed 's/.*: //; s/ on .*//'
| 0 products
# What a run remembers is shown, and its products do not change the losses that are printed.
$ for i in $(seq 200); do echo "line $i is $((i * i))"; done >text
$ axonn train data.train=text model.preset=tiny train.steps=3 train.precision=fp32 train.log_every=1 train.tune=off -q train.out=off
$ axonn train data.train=text model.preset=tiny train.steps=3 train.precision=fp32 train.log_every=1 train.tune=on train.tune_file=mine -q train.out=on
$ for run in off on; do sed -nE 's/^\{"step":([0-9]+),"loss":([0-9]+\.[0-9]{4}).*/\1 \2/p' $run/metrics.jsonl >$run.loss; done; cmp off.loss on.loss && wc -l <on.loss
| 3
$ test $(axonn info --tuning train.tune_file=mine | wc -l) -gt 10 && cmp mine on/tuning.txt && echo remembered
| remembered
$ axonn train data.train=text train.tune=on device=ref
! axonn: error: device=ref knows one way to make a matrix product: leave train.tune off
[2]
