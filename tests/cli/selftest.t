# Grids against one rank, in double.
$ axonn selftest device=ref model.preset=tiny --grid x=2,y=2
| Llama, 2 layers, width 64, heads 4, kv heads 2, ffn 192, vocabulary 257
| grid x=2,y=2,z=1,data=1 against one rank, f64 on ref
| step        loss      serial    grad norm      serial
|    1    5.567363    5.567363     0.550984    0.550984
|    2    5.559247    5.559247     0.547498    0.547498
|    3    5.564155    5.564155     0.551327    0.551327
|    4    5.563200    5.563200     0.549592    0.549592
|    5    5.557614    5.557614     0.546543    0.546543
| largest relative difference: loss N, gradient norm N; allowed 1e-12
| passed
$ for g in x=4 z=2,data=2 x=2,y=1,z=2 y=2,data=2,order=yxzd; do axonn selftest device=ref model.preset=tiny model.kv_heads=4 --grid $g --json; done
| {"passed":true,"worst_loss_difference":N,"worst_grad_norm_difference":N,"band":1e-12,"steps":5}
| {"passed":true,"worst_loss_difference":N,"worst_grad_norm_difference":N,"band":1e-12,"steps":5}
| {"passed":true,"worst_loss_difference":N,"worst_grad_norm_difference":N,"band":1e-12,"steps":5}
| {"passed":true,"worst_loss_difference":N,"worst_grad_norm_difference":N,"band":1e-12,"steps":5}
$ axonn selftest device=ref model.arch=gpt model.layers=2 model.hidden=32 model.heads=2 --ranks 4 --json
| {"passed":true,"worst_loss_difference":N,"worst_grad_norm_difference":N,"band":1e-12,"steps":5}
$ axonn selftest device=ref model.arch=gpt model.layers=2 model.hidden=32 model.heads=2 model.seq=32 train.activations=replicated train.recompute=full --grid x=2,y=2 | tail -1
| passed
# The answers are one line of JSON each.
$ axonn selftest device=ref model.preset=tiny --json 2>/dev/null | awk 'END { print NR }'
| 1
$ axonn info --json | tr ',' '\n' | sed -E 's/[{}]//g; s/:.*//' | head -3
| "version"
| "build"
| "devices"
