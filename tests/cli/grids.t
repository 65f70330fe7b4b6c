# A grid that can not run is refused with the numbers, and with grids that can.
$ awk 'BEGIN { for (i = 0; i < 400; i++) print i, i * i }' >squares.txt
$ axonn selftest --grid x=0
! axonn: error: grid 'x=0': size '0' of axis x is not a number from 1 to 1048576
[2]
$ axonn selftest --grid x=2,x=2
! axonn: error: grid 'x=2,x=2': axis x is given twice
[2]
$ axonn selftest --grid w=2
! axonn: error: grid 'w=2': no axis 'w' (axes: x, y, z, data)
[2]
$ axonn selftest --grid x=2,order=xxzd
! axonn: error: grid 'x=2,order=xxzd': order 'xxzd' is not a permutation of xyzd
[2]
$ axonn selftest --ranks 4 --grid x=2
! axonn: error: grid x=2 has 2 ranks, but 4 were started: make the product of the axes 4
[2]
$ axonn train data.train=squares.txt model.preset=tiny train.batch=4 --grid x=3
! axonn: error: grid x=3,y=1,z=1,data=1: model.heads 4 cannot be cut 3 ways over x. No grid of 3 ranks fits this model and batch
[2]
$ axonn train data.train=squares.txt model.preset=tiny train.batch=4 --grid x=8
! axonn: error: grid x=8,y=1,z=1,data=1: model.heads 4 cannot be cut 8 ways over x. Nearest grids of 8 ranks that fit: x=4,y=1,z=1,data=2; x=4,y=1,z=2,data=1; x=4,y=2,z=1,data=1
[2]
$ axonn train data.train=squares.txt model.preset=tiny train.batch=4 --grid y=5
! axonn: error: grid x=1,y=5,z=1,data=1: model.hidden 64 cannot be cut 5 ways over y. No grid of 5 ranks fits this model and batch
[2]
$ axonn train data.train=squares.txt model.preset=tiny train.batch=4 --grid z=8
! axonn: error: grid x=1,y=1,z=8,data=1: train.batch 4 cannot be cut over z*data=8 (each needs whole sequences). Nearest grids of 8 ranks that fit: x=2,y=1,z=4,data=1; x=1,y=2,z=4,data=1; x=2,y=1,z=2,data=2
[2]
$ axonn train data.train=squares.txt model.preset=tiny train.batch=6 --grid z=2,data=2
! axonn: error: grid x=1,y=1,z=2,data=2: train.batch 6 cannot be cut over z*data=4 (each needs whole sequences). Nearest grids of 4 ranks that fit: x=2,y=1,z=1,data=2; x=2,y=1,z=2,data=1; x=1,y=2,z=1,data=2
[2]
$ axonn train data.train=squares.txt model.preset=tiny train.batch=8 train.micro_batch=3 --grid z=2
! axonn: error: grid x=1,y=1,z=2,data=1: train.micro_batch 3 does not divide the 4 sequences that train.batch 8 leaves each of z*data=2. No grid of 2 ranks fits this model and batch
[2]
$ axonn train data.train=squares.txt model.preset=tiny train.batch=4 --ranks 7
! axonn: error: no grid of 7 ranks fits heads 4, kv_heads 2, hidden 64, ffn 192, batch 4: change the ranks, or a size that they divide (last refusal: model.hidden 64 cannot be cut 7 ways over y)
[2]
# Sums between ranks in another dtype: half the bytes of gradients, and what makes no sense is said.
$ for g in fp32 bf16; do axonn train -q data.train=squares.txt model.preset=tiny train.batch=4 train.steps=1 train.precision=fp32 comm.gradients=$g train.out=$g --grid z=2,data=2; grep -o '"comm_bytes":{[^}]*}' $g/metrics.jsonl; done
| "comm_bytes":{"zdata":16,"z":1359872,"data":557056,"xzdata":1280,"world":32}
| "comm_bytes":{"zdata":16,"z":1081344,"data":417792,"xzdata":1280,"world":32}
$ axonn train data.train=squares.txt model.preset=tiny train.batch=4 train.steps=1 train.precision=fp32 comm.activations=bf16 --grid x=2 2>&1 | grep comm
| axonn: train: comm.activations=bf16: activations are fp32 here, and travel as such
$ axonn train -q data.train=squares.txt model.preset=tiny train.batch=4 train.steps=1 train.precision=bf16 comm.activations=fp32 train.recompute=selective train.out=wide --grid x=2; grep -o '"loss":5.5' wide/metrics.jsonl
| "loss":5.5
$ axonn train data.train=squares.txt model.preset=tiny device=ref comm.gradients=bf16
! axonn: error: device=ref sums in double; leave comm.gradients and comm.activations out
[2]
