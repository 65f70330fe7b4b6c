# Checkpoints from outside: what is there, what stands in it, and whether it is whole.
$ awk 'BEGIN { for (i = 0; i < 300; i++) print i, "squared is", i * i }' >squares.txt
$ axonn train -q model.preset=tiny model.hidden=32 data.train=squares.txt data.valid_fraction=0 train.batch=4 train.steps=3 train.save_every=1 train.out=run/a
$ axonn checkpoint list run/a
| run/a/step-00000003  complete  N KiB
| run/a/step-00000002  complete  N KiB
| run/a/step-00000001  complete  N KiB
$ axonn checkpoint verify run/a
| run/a/step-00000003: ok, 63 tensors, N KiB
| run/a/step-00000002: ok, 63 tensors, N KiB
| run/a/step-00000001: ok, 63 tensors, N KiB
$ axonn checkpoint list run/a --json
| {"checkpoints":[{"path":"run/a/step-00000003","step":3,"complete":true,"bytes":N},{"path":"run/a/step-00000002","step":2,"complete":true,"bytes":N},{"path":"run/a/step-00000001","step":1,"complete":true,"bytes":N}]}
$ axonn checkpoint verify run/a/ --json
| {"ok":true,"bad":[],"checkpoints":3,"tensors":189,"bytes":N,"unsummed":0}

# A converted model has no optimizer, and files of others beside it.
$ cp -r $SOURCE/tests/golden/hf/llama_biases llama && axonn convert llama start -q
| start: checkpoint, 39776 parameters, F32
$ axonn checkpoint inspect start
| start
| step      0
| updates   0
| tokens    0
| dtype     f32
| format    2
| model.safetensors: 35 tensors, N KiB
|   embed.weight                             F32 [323, 32]
|   blk.0.attn_norm.weight                   F32 [32]
|   blk.0.attn.q.weight                      F32 [32, 32]
|   blk.0.attn.k.weight                      F32 [16, 32]
|   blk.0.attn.v.weight                      F32 [16, 32]
|   blk.0.attn.q.bias                        F32 [32]
|   blk.0.attn.k.bias                        F32 [16]
|   blk.0.attn.v.bias                        F32 [16]
|   blk.0.attn.o.weight                      F32 [32, 32]
|   blk.0.attn.o.bias                        F32 [32]
|   blk.0.mlp_norm.weight                    F32 [32]
|   blk.0.mlp.gate.weight                    F32 [64, 32]
|   blk.0.mlp.up.weight                      F32 [64, 32]
|   blk.0.mlp.gate.bias                      F32 [64]
|   blk.0.mlp.up.bias                        F32 [64]
|   blk.0.mlp.down.weight                    F32 [32, 64]
|   blk.0.mlp.down.bias                      F32 [32]
|   blk.1.attn_norm.weight                   F32 [32]
|   blk.1.attn.q.weight                      F32 [32, 32]
|   blk.1.attn.k.weight                      F32 [16, 32]
|   blk.1.attn.v.weight                      F32 [16, 32]
|   blk.1.attn.q.bias                        F32 [32]
|   blk.1.attn.k.bias                        F32 [16]
|   blk.1.attn.v.bias                        F32 [16]
|   blk.1.attn.o.weight                      F32 [32, 32]
|   blk.1.attn.o.bias                        F32 [32]
|   blk.1.mlp_norm.weight                    F32 [32]
|   blk.1.mlp.gate.weight                    F32 [64, 32]
|   blk.1.mlp.up.weight                      F32 [64, 32]
|   blk.1.mlp.gate.bias                      F32 [64]
|   blk.1.mlp.up.bias                        F32 [64]
|   blk.1.mlp.down.weight                    F32 [32, 64]
|   blk.1.mlp.down.bias                      F32 [32]
|   final_norm.weight                        F32 [32]
|   head.weight                              F32 [323, 32]
$ axonn checkpoint inspect start -v | sed -n '/^config/,$p' | head -5
| config
| device: cpu
| grid: "auto"
| ranks: 0
| model:
$ axonn checkpoint inspect start --json | grep -o '^.*"config"' | head -c 200; echo; axonn checkpoint inspect start --json | grep -o '"files":.*' | head -c 310; echo
| {"path":"start","step":0,"updates":0,"tokens":0,"dtype":"f32","format":2,"config"
|
| "files":[{"name":"model.safetensors","bytes":N,"tensors":[{"name":"embed.weight","dtype":"F32","shape":[323, 32],"checksum":"5e80241b2409349a"},{"name":"blk.0.attn_norm.weight","dtype":"F32","shape":[32],"checksum":"295d281c11b814b5"},{"name":"blk.0.attn.q.weight","dtype":"F32","shape":[32, 32],"checksum
$ axonn checkpoint list start
| start  complete  N KiB
$ axonn checkpoint verify start
| start: ok, 35 tensors, N KiB

# A bit that changed is found, whichever file it is in.
$ flip() { printf "\\$(printf %o $(($(od -An -tu1 -j$2 -N1 $1) ^ 4)))" | dd of=$1 bs=1 seek=$2 conv=notrunc status=none; }
> declare -f flip >flip.sh
$ . ./flip.sh; flip run/a/step-00000002/optimizer.safetensors 100000; flip start/model.safetensors 5000; flip run/a/step-00000001/manifest.json 20
$ axonn checkpoint verify start
| start/model.safetensors: tensor 'embed.weight': its bytes do not give its checksum
! axonn: error: start: 1 fault found
[1]
$ axonn checkpoint verify start --json
| {"ok":false,"bad":[{"file":"model.safetensors","tensor":"embed.weight","why":"its bytes do not give its checksum"}],"checkpoints":1,"tensors":35,"bytes":N,"unsummed":0}
! axonn: error: start: 1 fault found
[1]
$ axonn checkpoint verify run/a
| run/a/step-00000003: ok, 63 tensors, N KiB
| run/a/step-00000002/optimizer.safetensors: tensor 'blk.0.mlp.gate.weight.m': its bytes do not give its checksum
| run/a/step-00000001/manifest.json: its bytes do not give its checksum: it was changed or damaged
! axonn: error: run/a: 2 faults found
[1]
$ axonn checkpoint list run/a
| run/a/step-00000003  complete  N KiB
| run/a/step-00000002  complete  N KiB
| run/a/step-00000001  INCOMPLETE  N KiB
$ axonn eval model.init=start data.valid=squares.txt
! axonn: error: start/model.safetensors: tensor 'embed.weight' does not give its checksum: the file was changed or damaged; load another checkpoint
[1]
$ axonn convert start back
! axonn: error: start/model.safetensors: tensor 'embed.weight' does not give its checksum: the file was changed or damaged; load another checkpoint
[1]
$ . ./flip.sh; flip start/model.safetensors 5000; flip start/model.safetensors 12
$ axonn checkpoint verify start
| start/model.safetensors: its header does not give its checksum: the file was changed or damaged
! axonn: error: start: 1 fault found
[1]
$ truncate -s 1000 run/a/step-00000003/model.safetensors
$ axonn checkpoint verify run/a/step-00000003
| run/a/step-00000003/model.safetensors: 1000 bytes, but the manifest says 240280: the copy is incomplete or was changed
! axonn: error: run/a/step-00000003: 1 fault found
[1]
$ axonn checkpoint inspect run/a/step-00000003
! axonn: error: run/a/step-00000003/model.safetensors: 1000 bytes, but the manifest says 240280: the copy is incomplete or was changed
[1]
$ rm start/manifest.json
$ axonn checkpoint verify start
| start/manifest.json: not there: the directory is no checkpoint, or was never finished
! axonn: error: start: 1 fault found
[1]
$ axonn checkpoint inspect start
! axonn: error: start: no complete checkpoint is in it
[1]

# Places that hold none, and wrong use.
$ mkdir empty
$ axonn checkpoint list empty
| empty: no checkpoints
$ axonn checkpoint list empty --json
| {"checkpoints":[]}
$ axonn checkpoint inspect empty
! axonn: error: empty: no complete checkpoint is in it
[1]
$ axonn checkpoint list none
! axonn: error: none: no such directory
[2]
$ axonn checkpoint
! axonn: error: checkpoint needs one of list, inspect, verify
[2]
$ axonn checkpoint verify
! axonn: error: checkpoint verify needs a directory: a run's or a checkpoint's
[2]
$ axonn checkpoint lost run/a
! axonn: error: checkpoint lost: there are list, inspect, verify
[2]
