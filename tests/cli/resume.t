# A run directory, gone on with.
$ awk 'BEGIN { for (i = 0; i < 900; i++) print i, "squared is", i * i }' >squares.txt
$ printf 'model: {preset: tiny, hidden: 32}\ndata: {train: squares.txt}\ntrain: {batch: 4, steps: 4, lr: 1e-2, out: run, save_every: 2}\ndevice: ref\n' >run.yaml
$ axonn train --config run.yaml train.resume=auto --grid x=2,z=2
! axonn: train: Llama, 0.06 million parameters, f64, 4 ranks, grid x=2,y=1,z=2,data=1
! axonn: data: 18267 tokens to learn from, 961 held out
! axonn: plan: activations sharded, 2 sequences a micro-batch, 1 micro-batch a step, N MiB a rank
! step 1/4  loss 5.5367  N tokens/s  N left
! step 4/4  loss 4.9144  N tokens/s  N left
! axonn: eval: scoring the held-out tokens
! step 4  held out: loss 4.9288  perplexity 138.22  7.111 bits per byte
! axonn: train: saved in run/step-00000004

# By default a directory that holds a run is not touched.
$ axonn train --config run.yaml
! axonn: error: train.out=run: this directory holds a run: train.resume=auto goes on with it, or choose another train.out
[2]
$ axonn train --config run.yaml train.resume=auto
! axonn: resume: run/step-00000004 is at step 4 and train.steps=4: nothing is left to train

# What is not given anew is as it was: the grid, too.
$ axonn train train.out=run train.resume=auto train.steps=6
! axonn: train: Llama, 0.06 million parameters, f64, 4 ranks, grid x=2,y=1,z=2,data=1
! axonn: data: 18267 tokens to learn from, 961 held out
! axonn: plan: activations sharded, 2 sequences a micro-batch, 1 micro-batch a step, N MiB a rank
! axonn: resume: run/step-00000004, step 4 of 6
! step 6/6  loss 4.8832  N tokens/s  N left
! axonn: eval: scoring the held-out tokens
! step 6  held out: loss 4.8916  perplexity 133.16  7.057 bits per byte
! axonn: train: saved in run/step-00000006
$ awk '{ print NR, substr($0, 1, 12) }' run/metrics.jsonl
| 1 {"run":{"ver
| 2 {"step":1,"l
| 3 {"step":2,"l
| 4 {"step":3,"l
| 5 {"step":4,"l
| 6 {"step":4,"v
| 7 {"run":{"ver
| 8 {"step":5,"l
| 9 {"step":6,"l
| 10 {"step":6,"v
$ grep -o '"resumed_from":[0-9]*' run/metrics.jsonl
| "resumed_from":4
$ grep -E 'steps|lr:|hidden' run/config.yaml
|   hidden: 32
|   steps: 6
|   lr: 0.01
|   min_lr: 3e-05

# What decides the numbers stays; how long, where and how fast is free.
$ axonn train train.out=run train.resume=auto train.lr=1
! axonn: error: train.lr=1, but the run in run has 0.01, and a resumed run cannot change it: leave the key out, or begin a new run from its weights with model.init=run/step-00000006
[2]
$ axonn train train.out=run train.resume=auto model.preset=gpt2-124m
! axonn: error: model.arch=gpt, but the run in run has llama, and a resumed run cannot change it: leave the key out, or begin a new run from its weights with model.init=run/step-00000006
[2]
$ axonn train train.out=run train.resume=auto data.seed=2
! axonn: error: data.seed=2, but the run in run has 1, and a resumed run cannot change it: leave the key out, or begin a new run from its weights with model.init=run/step-00000006
[2]
$ axonn train train.out=run train.resume=auto train.batch=8
! axonn: error: train.batch=8, but the run in run has 4, and a resumed run cannot change it: leave the key out, or begin a new run from its weights with model.init=run/step-00000006
[2]
$ axonn train -q train.out=run train.resume=auto train.steps=7 train.micro_batch=2 train.recompute=full train.overlap=off --ranks 1
$ head -n 500 squares.txt >less.txt && cp squares.txt all.txt && cp less.txt squares.txt
$ axonn train train.out=run train.resume=auto train.steps=8
! axonn: error: data.train: squares.txt holds 10428 tokens, but held 19228 when run/step-00000007 was saved: the samples would be others; bring the old data back, or begin a new run from these weights with model.init=run/step-00000007
[2]
$ cp all.txt squares.txt

# A checkpoint by name: in a directory of its own, for in its own newer ones lie.
$ axonn train train.resume=run/step-00000004 train.steps=5
! axonn: error: train.resume=run/step-00000004: step-00000007 is newer; go on from that with train.resume=auto, move it away, or give another train.out
[2]
$ axonn train -q train.resume=run/step-00000004 train.steps=5 train.out=branch && ls branch
| config.yaml
| latest
| metrics.jsonl
| step-00000004
| step-00000005
$ sed -n 's/^{"step":5,"loss":\([0-9.]*\).*/\1/p' run/metrics.jsonl branch/metrics.jsonl | cut -c1-12 | uniq | wc -l
| 1
$ axonn train train.resume=nowhere train.out=new
! axonn: error: train.resume=nowhere: no such directory (never, auto, or a checkpoint)
[2]
$ axonn train train.resume=run.yaml train.out=new
! axonn: error: train.resume=run.yaml: no such directory (never, auto, or a checkpoint)
[2]
$ axonn train train.resume=auto data.train=squares.txt
! axonn: error: train.resume=auto needs train.out, where the run is
[2]
$ axonn train train.resume= data.train=squares.txt train.out=new
! axonn: error: train.resume is empty: never, auto, or a checkpoint
[2]

# Checkpoints beyond train.keep go, once a newer one is whole.
$ axonn train -q train.out=run train.resume=auto train.steps=12 train.keep=2 --ranks 2 && ls run
| config.yaml
| latest
| metrics.jsonl
| step-00000010
| step-00000012

# latest lies: the newest whole checkpoint is taken, and said.
$ echo step-00000099 >run/latest; axonn eval model.init=run data.train=squares.txt device=ref
| loss 4.666287  perplexity 106.302  tokens 960  N s  6.7320 bits per byte
! axonn: warning: run/latest names a broken checkpoint, step-00000099; taking step-00000012, the newest that is whole
$ rm run/latest; axonn eval model.init=run data.train=squares.txt device=ref
| loss 4.666287  perplexity 106.302  tokens 960  N s  6.7320 bits per byte
! axonn: warning: run/latest is missing or names nothing; taking step-00000012, the newest that is whole
$ axonn train -q train.out=run train.resume=auto train.steps=13 && cat run/latest
| step-00000013
# Half a line at the end is what a kill leaves; a line of someone else's is not.
$ printf '{"step":14,"lo' >>run/metrics.jsonl; axonn train -q train.out=run train.resume=auto train.steps=14 && tail -n 1 run/metrics.jsonl | cut -c1-11
| {"step":14,
$ sed -i '3s/.*/hello/' run/metrics.jsonl; axonn train -q train.out=run train.resume=auto train.steps=15
! axonn: [rank 0] error: run/metrics.jsonl:3: no line of a run; mend or move the file, then resume
! axonn: [rank 1] error: rank 0 of world failed (malformed file); its own message says why
[1]

# The time that a job has.
$ axonn train -q --config run.yaml train.out=timed train.steps=1000000 train.wall_time=1 --json 2>words | sed 's/:[0-9.]*/:N/g'; echo ${PIPESTATUS[0]}; sed 's/[0-9][0-9]*/N/g' words
| {"steps":N,"tokens":N,"loss":N,"stopped":Ntrue,"seconds":N}
| 75
| axonn: warning: saved in timed/step-N
| axonn: warning: leaving after step N of N; the same command goes on with train.resume=auto
$ axonn train -q train.out=timed train.resume=auto train.wall_time=1 2>/dev/null
[75]
$ env -u SLURM_JOB_END_TIME axonn train --config run.yaml train.out=new train.stop_before=60
! axonn: error: train.stop_before=60: when the job ends is not known: Slurm tells it in SLURM_JOB_END_TIME; elsewhere give train.wall_time, in seconds
[2]
$ axonn train --config run.yaml train.out= train.wall_time=60
! axonn: error: train.wall_time without train.out: nothing would be saved to go on from
[2]
$ SLURM_JOB_END_TIME=soon axonn train --config run.yaml train.out=new train.stop_before=60
! axonn: error: SLURM_JOB_END_TIME=soon is no time
[2]
$ ls new
! ls: cannot access 'new': No such file or directory
[2]
