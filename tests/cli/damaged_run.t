# Which checkpoints of a run step aside, and which are left as they are.
$ awk 'BEGIN { for (i = 0; i < 900; i++) print i, "squared is", i * i }' >squares.txt
$ axonn train -q model.preset=tiny model.hidden=32 data.train=squares.txt train.batch=4 train.steps=4 train.save_every=2 train.out=run device=ref train.log_every=0
$ printf 'printf x | dd of=$1 bs=1 seek=$2 conv=notrunc 2>/dev/null\n' >flip

# Damage is told once, as a warning, and the one before is taken.
$ cp -r run first; bash flip first/step-00000004/model.safetensors 5000; axonn train -q train.out=first train.resume=auto
! axonn: warning: first/step-00000004 is BROKEN, going back to the one before; it is passed over and now named first/broken-step-00000004 (first/step-00000004/model.safetensors: tensor 'embed.weight' does not give its checksum: the file was changed or damaged; load another checkpoint)
$ bash flip first/step-00000004/optimizer.safetensors 5000; axonn train -q train.out=first train.resume=auto --ranks 2 && ls first
| broken-step-00000004
| broken-step-00000004.2
| config.yaml
| latest
| metrics.jsonl
| step-00000002
| step-00000004
! axonn: [rank 0] warning: first/step-00000004 is BROKEN, going back to the one before; it is passed over and now named first/broken-step-00000004.2 (first/step-00000004/optimizer.safetensors: tensor 'embed.weight.m' does not give its checksum: the file was changed or damaged; load another checkpoint)
$ bash flip first/step-00000004/manifest.json 40; axonn train -q train.out=first train.resume=auto
! axonn: warning: first/step-00000004 is not whole; it is passed over and now named first/broken-step-00000004.3 (first/step-00000004/manifest.json: its bytes do not give its checksum: it was changed or damaged)
$ truncate -s -8 first/step-00000004/optimizer.safetensors; axonn train -q train.out=first train.resume=auto train.steps=5
! axonn: warning: first/step-00000004 is not whole; it is passed over and now named first/broken-step-00000004.4 (first/step-00000004/optimizer.safetensors: 957560 bytes, but the manifest says 957568: the copy is incomplete or was changed)
$ bash flip first/step-00000005/model.safetensors 5000; axonn train -q train.resume=first/step-00000005 train.steps=6
! axonn: error: first/step-00000005/model.safetensors: tensor 'embed.weight' does not give its checksum: the file was changed or damaged; load another checkpoint
[1]
$ cp -r first source; axonn train -q train.resume=source train.out=branch train.steps=5 && ls source branch
| branch:
| config.yaml
| latest
| metrics.jsonl
| step-00000004
| step-00000005
|
| source:
| broken-step-00000004
| broken-step-00000004.2
| broken-step-00000004.3
| broken-step-00000004.4
| config.yaml
| latest
| metrics.jsonl
| step-00000002
| step-00000004
| step-00000005
! axonn: warning: source/step-00000005 is BROKEN; going back to the checkpoint before it (source/step-00000005/model.safetensors: tensor 'embed.weight' does not give its checksum: the file was changed or damaged; load another checkpoint)

# What is whole stays, whatever keeps it from being loaded: a model of other sizes,
$ printf '%s\n' 's/^  "config": \(.*\),$/  "config": \1/' '/"checksum":/d' >unseal
$ axonn train -q --config run/config.yaml train.out=sizes train.steps=2; sed -i -f unseal -e 's/"format": 2/"format": 1/; s/hidden: 32/hidden: 64/' sizes/step-00000002/manifest.json
$ axonn train -q train.out=sizes train.resume=auto train.steps=3; ls sizes
| config.yaml
| latest
| metrics.jsonl
| step-00000002
! axonn: error: sizes/step-00000002/model.safetensors: tensor 'embed.weight' is [257, 32], but the model's is [257, 64]; compare their sizes
# a version that is newer,
$ axonn train -q --config run/config.yaml train.out=newer train.steps=4; sed -i -f unseal -e 's/"format": 2/"format": 3/' newer/step-00000004/manifest.json
$ axonn train -q train.out=newer train.resume=auto; ls newer
| config.yaml
| latest
| metrics.jsonl
| step-00000002
| step-00000004
! axonn: error: newer/step-00000004/manifest.json: format 3 is newer than this program, which reads up to 2
# a file that cannot be read.
$ cd newer/step-00000004 && mv manifest.json kept && mkdir manifest.json; cd ../..; axonn train -q train.out=newer train.resume=auto; ls newer
| config.yaml
| latest
| metrics.jsonl
| step-00000002
| step-00000004
! axonn: error: newer/step-00000004/manifest.json: not a plain file

# A checkpoint under the name of another step.
$ axonn train -q --config run/config.yaml train.out=named train.steps=4; mv named/step-00000004 named/step-00000009
$ axonn checkpoint list named
| named/step-00000009  MISNAMED  N MiB
| named/step-00000002  complete  N MiB
$ axonn checkpoint list named --json
| {"checkpoints":[{"path":"named/step-00000009","step":9,"complete":false,"bytes":N},{"path":"named/step-00000002","step":2,"complete":true,"bytes":N}]}
$ axonn checkpoint verify named
| named/step-00000009/manifest.json: it is of step 4, but the directory is named after step 9
| named/step-00000002: ok, 63 tensors, N MiB
! axonn: error: named: 1 fault found
[1]
$ axonn checkpoint verify named/step-00000009/ --json
| {"ok":false,"bad":[{"file":"manifest.json","tensor":"","why":"it is of step 4, but the directory is named after step 9"}],"checkpoints":1,"tensors":63,"bytes":N,"unsummed":0}
! axonn: error: named/step-00000009: 1 fault found
[1]
$ axonn train -q train.out=named train.resume=auto train.steps=5
! axonn: error: named/step-00000009 holds step 4: it was renamed or copied; name it step-00000004, or move it out of the run
[1]
$ axonn train -q train.resume=named/step-00000009 train.steps=5
! axonn: error: named/step-00000009 holds step 4: it was renamed or copied; name it step-00000004, or move it out of the run
[1]
$ axonn train -q train.resume=named/step-00000009 train.out=moved train.steps=5 && ls moved named
| moved:
| config.yaml
| latest
| metrics.jsonl
| step-00000004
| step-00000005
|
| named:
| config.yaml
| latest
| metrics.jsonl
| step-00000002
| step-00000009
$ axonn eval -q model.init=named/step-00000009 data.valid=squares.txt --json | cut -c1-13
| {"valid_loss"
$ axonn eval -q model.init=named data.valid=squares.txt --json | cut -c1-13
| {"valid_loss"
! axonn: warning: named/latest names a broken checkpoint, step-00000004; taking step-00000002, the newest that is whole

# All of them damaged: each steps aside, and that none is left is said.
$ cp -r run all; for d in all/step-*; do bash flip $d/optimizer.safetensors 5000; done; axonn train -q train.out=all train.resume=auto 2>&1 | sed 's/ (.*//'
| axonn: warning: all/step-00000004 is BROKEN, going back to the one before; it is passed over and now named all/broken-step-00000004
| axonn: warning: all/step-00000002 is BROKEN, going back to the one before; it is passed over and now named all/broken-step-00000002
| axonn: error: all: none of its checkpoints is whole: look with axonn checkpoint verify, or start anew in another train.out

# What stands where a run keeps its tokenizer, and is not its own, is not touched.
$ mkdir -p taken/tokenizer mine && echo mine >taken/tokenizer/tokenizer.json && ln -s mine linked
$ axonn train -q --config run/config.yaml train.out=taken; cat taken/tokenizer/tokenizer.json
| mine
! axonn: error: taken/tokenizer: is there already, and this run did not make it; a run keeps its tokenizer under that name: choose another train.out
$ mkdir under && ln -s ../mine under/tokenizer && axonn train -q --config run/config.yaml train.out=under; ls mine under
| mine:
|
| under:
| tokenizer
! axonn: error: under/tokenizer: is there already, and this run did not make it; a run keeps its tokenizer under that name: choose another train.out

# Closed standard files: what is printed does not land in those of the run.
$ axonn train --config run/config.yaml train.out=silent train.log_every=1 <&- >&- 2>&-
$ axonn checkpoint verify silent; grep -vc '^{.*}$' silent/metrics.jsonl
| silent/step-00000004: ok, 63 tensors, N MiB
| silent/step-00000002: ok, 63 tensors, N MiB
| 0
[1]

# A run that had checkpoints does not begin again, however often it is started.
$ rm -f all/latest; axonn train -q train.out=all train.resume=auto; axonn train -q train.out=all train.resume=auto
! axonn: error: all has had checkpoints, but none is whole: bring one back, or start anew in another train.out
! axonn: error: all has had checkpoints, but none is whole: bring one back, or start anew in another train.out
[1]

# Nor does one that went on from another's checkpoint and was killed before it saved.
$ mkdir fork && sed "s,resume: .*,resume: \"run/step-00000002\"," run/config.yaml >fork/config.yaml && echo '{"run": {}}' >fork/metrics.jsonl; axonn train -q train.out=fork train.resume=auto
! axonn: error: fork holds a run that went on from train.resume=run/step-00000002 and ended before its first checkpoint: start it again with that train.resume, in another train.out
[2]
