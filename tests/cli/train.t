# Train, score and generate; every number that does not depend on the machine is compared.
$ awk 'BEGIN { for (i = 0; i < 900; i++) print i, "squared is", i * i }' >squares.txt
$ printf 'model: {preset: tiny, hidden: 32}\ndata: {train: squares.txt}\ntrain: {batch: 4, steps: 3, lr: 1e-2, out: run}\ndevice: ref\n' >run.yaml
$ axonn train --config run.yaml --grid x=2,z=2
! axonn: train: Llama, 0.06 million parameters, f64, 4 ranks, grid x=2,y=1,z=2,data=1
! axonn: data: 18267 tokens to learn from, 961 held out
! axonn: plan: activations sharded, 2 sequences a micro-batch, 1 micro-batch a step, N MiB a rank
! step 1/3  loss 5.5367  N tokens/s  N left
! step 3/3  loss 5.1077  N tokens/s  N left
! axonn: eval: scoring the held-out tokens
! step 3  held out: loss 5.1296  perplexity 168.96  7.400 bits per byte
! axonn: train: saved in run/step-00000003
$ ls run run/step-00000003
| run:
| config.yaml
| latest
| metrics.jsonl
| step-00000003
|
| run/step-00000003:
| manifest.json
| model.safetensors
| optimizer.safetensors
$ cat run/latest
| step-00000003

# metrics.jsonl: a line for the run, one a step, one for the evaluation; each an object.
$ awk '{ print NR, substr($0, 1, 12), substr($0, length($0)) }' run/metrics.jsonl
| 1 {"run":{"ver }
| 2 {"step":1,"l }
| 3 {"step":2,"l }
| 4 {"step":3,"l }
| 5 {"step":3,"v }
$ sed -n 2p run/metrics.jsonl | tr ',' '\n' | sed -E 's/[{}]//g; s/:.*//' | tr '\n' ' '; echo
| "step" "loss" "lr" "grad_norm" "tokens" "kept_tokens" "step_s" "tokens_per_s" "model_flops_per_s" "hardware_flops_per_s" "rank_memory_bytes" "comm_bytes" "z" "xy" "x" "xzdata" "world" "comm_exposed_s" "z" "xy" "x" "xzdata" "world" "comm_moving_s" "z" "xy" "x" "xzdata" "world" 
# The configuration it wrote runs the same again: equal losses, step by step.
$ axonn train -q --config run/config.yaml train.out=again
$ for r in run again; do sed -n 's/.*"loss":\([0-9.]*\),.*/\1/p' $r/metrics.jsonl; done | sort | uniq -c | awk '{ print $1 }'
| 2
| 2
| 2
# One rank, the same losses to rounding.
$ axonn train -q --config run.yaml train.out=serial
$ for r in run serial; do sed -n 's/.*"loss":\([0-9.]*\),.*/\1/p' $r/metrics.jsonl | cut -c1-11; done | sort | uniq -c | awk '{ print $1 }'
| 2
| 2
| 2

# A directory that holds a run is not written into.
$ axonn train --config run.yaml
! axonn: error: train.out=run: this directory holds a run: train.resume=auto goes on with it, or choose another train.out
[2]
$ axonn train --config run.yaml train.out=run.yaml
! axonn: error: train.out=run.yaml: Not a directory
[1]

# Any grid reads the checkpoint.
$ axonn eval model.init=run data.train=squares.txt device=ref
| loss 5.129633  perplexity 168.955  tokens 960  N s  7.4005 bits per byte
$ axonn eval model.init=run data.train=squares.txt device=ref --grid y=2,data=2 --json
| {"valid_loss":5.129632818~,"perplexity":168.955069536~,"tokens":960,"seconds":N,"bits_per_byte":7.400495829~}
$ axonn eval model.init=run/step-00000003 data.valid=squares.txt data.train=squares.txt device=ref --json
| {"valid_loss":5.116054194~,"perplexity":166.676397775~,"tokens":19227,"seconds":N,"bits_per_byte":7.380906015~}
$ axonn eval model.init=run data.train=squares.txt model.hidden=64
! axonn: error: model.hidden=64, but the checkpoint in model.init has 32: leave the key out
[2]
$ axonn generate model.init=run "12 squared" generate.tokens=24 generate.temperature=0 device=ref | od -c
| 0000000   1   2       s   q   u   a   r   e   d       s   q   u   a   r
| 0000020   e   d       s   q   u   a   r   e   d       s   q   u   a   r
| 0000040   e   d  \n
| 0000043
! axonn: generate: 24 tokens generated after 10 of the prompts, in N s: N tokens/s
$ axonn generate model.init=run "12 squared" generate.tokens=24 generate.temperature=0 device=ref --grid x=2,y=2 | od -c | cksum
| 54789960 172
! axonn: generate: 24 tokens generated after 10 of the prompts, in N s: N tokens/s
$ axonn generate model.init=run "12 squared" generate.tokens=24 generate.temperature=0 device=ref | od -c | cksum
| 54789960 172
! axonn: generate: 24 tokens generated after 10 of the prompts, in N s: N tokens/s
$ for s in 1 1 2; do axonn generate model.init=run a generate.tokens=40 generate.seed=$s device=ref | cksum; done | sort | uniq -c | awk '{ print $1 }' | sort
| 1
| 2
! axonn: generate: 40 tokens generated after 1 of the prompts, in N s: N tokens/s
! axonn: generate: 40 tokens generated after 1 of the prompts, in N s: N tokens/s
! axonn: generate: 40 tokens generated after 1 of the prompts, in N s: N tokens/s
$ axonn generate model.init=run generate.prompt=12 generate.tokens=0 device=ref
| 12
$ axonn generate model.init=run "12 " generate.tokens=4 generate.top_k=1 device=ref --json
| {"prompt":"12 ","text":"squa","tokens":4,"stopped":"length"}
! axonn: generate: 4 tokens generated after 3 of the prompts, in N s: N tokens/s

# Files that were cut or changed are found.
$ cp -r run cut && truncate -s -8 cut/step-00000003/model.safetensors && axonn eval model.init=cut data.train=squares.txt device=ref
! axonn: error: cut/step-00000003/model.safetensors: 478736 bytes, but the manifest says 478744: the copy is incomplete or was changed
[1]
$ rm cut/step-00000003/manifest.json; axonn eval model.init=cut data.train=squares.txt device=ref
! axonn: error: cut/step-00000003/manifest.json: not there: the directory is no checkpoint, or was never finished
[1]
$ echo step-00000009 >cut/latest; axonn eval model.init=cut data.train=squares.txt device=ref
! axonn: error: cut/step-00000009/manifest.json: not there: the directory is no checkpoint, or was never finished
[1]

# The result as one object.
$ axonn train --config run.yaml train.out= --json 2>/dev/null
| {"steps":3,"tokens":768,"loss":5.107717836~,"valid_loss":5.129632818~,"seconds":N}

# Steps to look at: not the first one, and every rank has its rows.
$ axonn train --config run.yaml train.out= train.trace=1
! axonn: error: train.trace=1: the trace is written in the run directory; give train.out=DIR
[2]
$ axonn train --config run.yaml --grid x=2,z=2 train.out=traced train.trace=2 2>&1 | grep trace
| axonn: trace: 2 steps in traced/trace.json: open it in ui.perfetto.dev
| axonn: train: saved in traced/step-00000003
$ tr ',{}' '\n\n\n' <traced/trace.json | grep -E '^"name":"(step [0-9]+|rank.*|axis.*)|^"cat":"(kernel|exposed|transfer)"' | sort | uniq -c | sed 's/^ *[0-9]* //'
| "cat":"exposed"
| "cat":"kernel"
| "cat":"transfer"
| "name":"axis world"
| "name":"axis x"
| "name":"axis xy"
| "name":"axis xzdata"
| "name":"axis z (2)"
| "name":"axis z"
| "name":"axis zdata"
| "name":"rank 0 (x=0 y=0 z=0 data=0)"
| "name":"rank 1 (x=1 y=0 z=0 data=0)"
| "name":"rank 2 (x=0 y=0 z=1 data=0)"
| "name":"rank 3 (x=1 y=0 z=1 data=0)"
| "name":"step 2"
| "name":"step 3"
$ ls traced
| config.yaml
| latest
| metrics.jsonl
| step-00000003
| trace.json
