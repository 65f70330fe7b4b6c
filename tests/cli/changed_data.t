# A run goes on with the data, the keys and the time that it began with, and says where it cannot.
$ awk 'BEGIN { for (i = 0; i < 900; i++) print i, "squared is", i * i }' >squares.txt
$ printf 'model: {preset: tiny, hidden: 32}\ndata: {train: squares.txt}\ntrain: {batch: 4, steps: 4, lr: 1e-2, save_every: 2, log_every: 0}\ndevice: ref\n' >run.yaml
$ axonn train -q --config run.yaml train.out=run
$ grep -o '"files":\[[^]]*\]' run/step-00000004/manifest.json | tr -d '0-9a-f'
| "ils":["t.trin    squrs.txt"]

# A file may move: what it holds is what counts.
$ mkdir there && mv squares.txt there/all.txt
$ axonn train -q train.out=run train.resume=auto train.steps=5
! axonn: error: squares.txt: No such file or directory
[2]
$ axonn train -q train.out=run train.resume=auto train.steps=5 data.train=there/all.txt && grep '  train:' run/config.yaml
|   train: "there/all.txt"
$ sed '450s/4/5/' there/all.txt >other.txt && wc -c <other.txt | cmp - <(wc -c <there/all.txt) && cp -r run copy
$ axonn train -q train.out=run train.resume=auto train.steps=6 data.train=other.txt
! axonn: error: data.train: other.txt (then all.txt) does not hold the tokens that it held when run/step-00000005 was saved: the samples would be others; bring the old data back, or begin a new run from these weights with model.init=run/step-00000005
[2]
$ cp there/all.txt keep.txt && cp other.txt there/all.txt
$ axonn train -q train.out=run train.resume=auto train.steps=6 --ranks 2
! axonn: [rank 0] error: data.train: all.txt does not hold the tokens that it held when run/step-00000005 was saved: the samples would be others; bring the old data back, or begin a new run from these weights with model.init=run/step-00000005
! axonn: [rank 1] error: rank 0 of world failed (wrong use); its own message says why
[2]
$ cp keep.txt there/all.txt
$ axonn train -q train.out=run train.resume=auto train.steps=6 data.train=there/all.txt,other.txt
! axonn: error: data.train and data.valid name 2 files, but named 1 when run/step-00000005 was saved: the samples would be others; bring the old data back, or begin a new run from these weights with model.init=run/step-00000005
[2]
$ axonn train -q --config run.yaml train.out=mix data.train=keep.txt@0.5,other.txt@0.5 data.valid=keep.txt train.steps=2
$ axonn train -q train.out=mix train.resume=auto train.steps=3 data.train=keep.txt@0.25,other.txt@0.75
! axonn: error: data.train: the share of keep.txt in the mixture is 0.25, but was 0.5 when mix/step-00000002 was saved: the samples would be others; bring the old data back, or begin a new run from these weights with model.init=mix/step-00000002
[2]
$ axonn train -q train.out=mix train.resume=auto train.steps=3 data.valid=other.txt
! axonn: error: data.valid: other.txt (then keep.txt) does not hold the tokens that it held when mix/step-00000002 was saved: the samples would be others; bring the old data back, or begin a new run from these weights with model.init=mix/step-00000002
[2]
$ axonn train -q train.out=mix train.resume=auto train.steps=3 data.train=keep.txt@5,other.txt@5
$ axonn train -q --config run.yaml model.init=run train.out=next data.train=other.txt train.steps=1 && ls next
| config.yaml
| latest
| metrics.jsonl
| step-00000001
$ printf 'model: {preset: gpt2-124m, layers: 7}\ndata: {train: other.txt}\ntrain: {batch: 4, log_every: 0}\ndevice: ref\n' >gpt.yaml
$ for i in 1 2; do axonn train -q --config gpt.yaml model.init=run train.out=tuned train.resume=auto train.steps=$i; done; ls tuned
| config.yaml
| latest
| metrics.jsonl
| step-00000001
| step-00000002
$ axonn train -q --config gpt.yaml train.out=tuned train.resume=auto train.steps=3
! axonn: error: model.arch=gpt, but the run in tuned has llama, and a resumed run cannot change it: leave the key out, or begin a new run from its weights with model.init=tuned/step-00000002
[2]

# A checkpoint of an earlier version has no fingerprints: the same names and as many tokens must do.
$ old() { sed -i 's/"format": 2/"format": 1/; s/,"files":\["data[^]]*\]//; s/^  "config": \(.*\),$/  "config": \1/; /"checksum":/d' $1/manifest.json; }; old copy/step-00000005
$ axonn train -q train.out=copy train.resume=auto train.steps=6
! axonn: warning: copy/step-00000005: an earlier version wrote it without checksums: damage would go unnoticed
! axonn: warning: copy/step-00000005: an earlier version saved it without fingerprints of its data: that those are the same files is not checked
$ rm -r copy/step-00000006; echo step-00000005 >copy/latest; axonn train -q train.out=copy train.resume=auto train.steps=6 data.train=other.txt
! axonn: error: data.train=other.txt, but the run in copy has there/all.txt, and a resumed run cannot change it: leave the key out, or begin a new run from its weights with model.init=copy/step-00000005
[2]
$ head -n 500 keep.txt >there/all.txt; axonn train -q train.out=copy train.resume=auto train.steps=7; cp keep.txt there/all.txt
! axonn: warning: copy/step-00000005: an earlier version wrote it without checksums: damage would go unnoticed
! axonn: error: data.train holds 9907 tokens to learn from, but held 18267 when copy/step-00000005 was saved: the samples would be others; bring the old data back, or begin a new run from these weights with model.init=copy/step-00000005

# A run that was cut before its first checkpoint begins again as it was told to begin.
$ cp -r run young && rm -r young/step-* young/latest && axonn train -q train.out=young train.resume=auto && grep -E 'lr:|hidden:|^device|  steps' young/config.yaml
| device: ref
|   hidden: 32
|   steps: 5
|   lr: 0.01
|   min_lr: 3e-05
! axonn: warning: young holds a run that ended before its first checkpoint; it begins again
$ axonn train -q --config run.yaml train.out=calm data.train=keep.txt train.steps=5 && cmp young/step-00000005/model.safetensors calm/step-00000005/model.safetensors
$ rm -r young/step-* young/latest; axonn train -q --config run.yaml train.out=young train.resume=auto data.train=there/all.txt train.lr=1
! axonn: warning: young holds a run that ended before its first checkpoint; it begins again
! axonn: error: train.lr=1, but the run that began in young has 0.01, and train.resume=auto begins it again: leave the key out, remove the directory, or give another train.out
[2]
$ axonn train -q --config run.yaml train.out=young train.resume=auto data.train=there/all.txt model.init=run
! axonn: warning: young holds a run that ended before its first checkpoint; it begins again
! axonn: error: model.init=run, but the run that began in young has random, and train.resume=auto begins it again: leave the key out, remove the directory, or give another train.out
[2]
$ axonn train -q --config run.yaml train.out=young train.resume=auto data.train=keep.txt
! axonn: warning: young holds a run that ended before its first checkpoint; it begins again
! axonn: error: data.train=keep.txt, but the run that began in young has there/all.txt, and train.resume=auto begins it again: leave the key out, remove the directory, or give another train.out
[2]
$ axonn train -q --config run.yaml train.out=young train.resume=auto data.train=there/all.txt train.steps=2 --ranks 2 && ls young
| config.yaml
| latest
| metrics.jsonl
| step-00000002
! axonn: warning: young holds a run that ended before its first checkpoint; it begins again
$ rm -r young/step-* young/latest young/config.yaml; axonn train -q train.out=young train.resume=auto
! axonn: warning: young holds a run that ended before its first checkpoint and has no config.yaml, so that the keys of this start count; it begins again
! axonn: error: data.train is not set: name a text, a JSONL or a token file
[2]

# The time that a run has is its own; where the end of a job is not known, it is let go.
$ export -n SLURM_JOB_END_TIME; axonn train -q --config run.yaml data.train=keep.txt train.out=timed train.stop_before=1 train.wall_time=900
$ axonn train train.out=timed train.resume=auto train.steps=5 2>&1 | grep holds; grep -E 'stop_before|wall_time' timed/config.yaml
| axonn: resume: the run's train.wall_time=900 holds again: it leaves after as many seconds; 0 takes the limit away
|   stop_before: 1
|   wall_time: 9e+02
$ axonn train train.out=timed train.resume=auto train.steps=6 train.wall_time=0 2>&1 | grep -E 'end of this job'; grep -E 'stop_before|wall_time' timed/config.yaml
| axonn: resume: the end of this job is not known: train.stop_before=1 of the run is left out
|   stop_before: 0
|   wall_time: 0

# A precision of the run is not one that was asked for on a device that computes in double.
$ axonn train -q --config run.yaml data.train=keep.txt train.out=exact device=cpu train.precision=fp32 train.steps=2
$ axonn train -q train.out=exact train.resume=auto train.steps=3 device=ref && grep -E '^device|precision' exact/config.yaml
| device: ref
|   precision: auto
$ axonn train -q train.out=exact train.resume=auto train.steps=4 device=ref train.precision=bf16
! axonn: error: device=ref computes in double; leave train.precision out
[2]

# Lines of the metrics that are lost are told of.
$ rm run/metrics.jsonl; axonn train -q train.out=run train.resume=auto train.steps=6
! axonn: warning: run/metrics.jsonl is gone: the lines up to step 5 are lost
$ : >run/metrics.jsonl; axonn train -q train.out=run train.resume=auto train.steps=7
! axonn: warning: run/metrics.jsonl holds no step: the lines up to step 6 are lost
$ axonn train -q train.out=run train.resume=auto train.steps=8 && sed -i '/"step":8/d' run/metrics.jsonl; axonn train -q train.out=run train.resume=auto train.steps=9
! axonn: warning: run/metrics.jsonl ends at step 7: the lines up to step 8 are lost
