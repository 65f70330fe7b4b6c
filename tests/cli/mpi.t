# Ranks that a launcher started.
$ awk 'BEGIN { for (i = 0; i < 900; i++) print i, "squared is", i * i }' >squares.txt
$ printf 'model: {preset: tiny, hidden: 32}\ndata: {train: squares.txt}\ntrain: {batch: 4, steps: 3, lr: 1e-2, out: run}\ngrid: x=2,z=2\ndevice: ref\n' >run.yaml
$ $MPIEXEC -n 4 axonn train --config run.yaml 2>&1 | grep -E "^(axonn|step)"
| axonn: train: Llama, 0.06 million parameters, f64, 4 ranks, grid x=2,y=1,z=2,data=1
| axonn: data: 18267 tokens to learn from, 961 held out
| axonn: plan: activations sharded, 2 sequences a micro-batch, 1 micro-batch a step, N MiB a rank
| step 1/3  loss 5.5367  N tokens/s  N left
| step 3/3  loss 5.1077  N tokens/s  N left
| axonn: eval: scoring the held-out tokens
| step 3  held out: loss 5.1296  perplexity 168.96  7.400 bits per byte
| axonn: train: saved in run/step-00000003

# Threads of one process give the same losses, and the same checkpoint.
$ axonn train -q --config run.yaml train.out=local
$ for r in run local; do sed -n 's/.*"loss":\([0-9.]*\),.*/\1/p' $r/metrics.jsonl | cut -c1-11; done | sort | uniq -c | awk '{ print $1 }'
| 2
| 2
| 2
$ axonn eval model.init=run data.train=squares.txt device=ref
| loss 5.129633  perplexity 168.955  tokens 960  N s  7.4005 bits per byte

$ $MPIEXEC -n 2 axonn selftest device=ref model.preset=tiny 2>/dev/null | tail -1
| passed
$ $MPIEXEC -n 2 axonn selftest device=ref model.preset=tiny --json 2>/dev/null | awk 'END { print NR }'
| 1

# A mistake is said once.
$ $MPIEXEC -n 2 axonn selftest --ranks 3 2>&1 | grep -m 1 '^axonn: .rank 0' | sed 's,MPICH,Open MPI,'
| axonn: [rank 0] error: --ranks 3, but Open MPI mpirun started 2: leave --ranks out
$ $MPIEXEC -n 2 axonn selftest --grid x=4 2>&1 | grep -m 1 '^axonn: .rank 0' | sed 's,MPICH,Open MPI,'
| axonn: [rank 0] error: grid x=4 has 4 ranks, but 2 were started: make the product of the axes 2
$ $MPIEXEC -n 2 axonn train data.train=missing.txt 2>&1 | grep -m 1 '^axonn: .rank 0' | sed 's,MPICH,Open MPI,'
| axonn: [rank 0] error: missing.txt: No such file or directory
$ $MPIEXEC -n 2 axonn train data.train=missing.txt >/dev/null 2>&1 || echo failed
| failed

# Several prompts on ranks that were started: each (data, z) coordinate has some of them.
$ printf 'a\nbc\n12 squared\n' >prompts.txt; $MPIEXEC -n 4 axonn generate -q model.init=run generate.prompts=prompts.txt generate.tokens=20 generate.temperature=0 device=ref --grid x=2,z=2 --json 2>/dev/null >ranks.json; axonn generate -q model.init=run generate.prompts=prompts.txt generate.tokens=20 generate.temperature=0 device=ref --json | cmp - ranks.json && wc -l <ranks.json
| 3
