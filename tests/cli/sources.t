# Token files, mixtures, rows of whole documents, masks, pairs of prompt and completion: what is
# read when, and what it scores.
$ for i in $(seq 80); do echo "{\"text\": \"$i squared is $((i * i)), and $i cubed is $((i * i * i))\"}"; done >squares.jsonl
$ for i in $(seq 60); do echo "{\"prompt\": \"what is $i + $i? \", \"completion\": \"$((i + i))\"}"; done >sums.jsonl
$ axonn prepare data.train=squares.jsonl out=squares 2>&1 | head -1
| squares.bin, squares.idx: 80 documents, 3297 tokens of 2 bytes, from 3217 bytes of text
$ for i in $(seq 30); do echo "page $i"; done >pages.txt

# A stream: samples are cut from running text. The same from JSONL and from the token file.
$ axonn data show --step 1 data.train=squares.jsonl model.seq=48 train.batch=3
| row 0  source 0  epoch 1  sample 12  tokens 576..624  documents 15 (squares.jsonl line 16), 16 (squares.jsonl line 17)
| row 1  source 0  epoch 1  sample 53  tokens 2544..2592  documents 62 (squares.jsonl line 63), 63 (squares.jsonl line 64)
| row 2  source 0  epoch 1  sample 17  tokens 816..864  documents 21 (squares.jsonl line 22), 22 (squares.jsonl line 23)
$ axonn data show --step 1 data.train=squares model.seq=48 train.batch=3
| row 0  source 0  epoch 1  sample 12  tokens 576..624  documents 15 (squares number 15), 16 (squares number 16)
| row 1  source 0  epoch 1  sample 53  tokens 2544..2592  documents 62 (squares number 62), 63 (squares number 63)
| row 2  source 0  epoch 1  sample 17  tokens 816..864  documents 21 (squares number 21), 22 (squares number 22)
$ axonn data show --step=2 data.train=pages.txt,squares model.seq=48 train.batch=2 data.seed=4 --json
| {"step":2,"rows":[{"row":0,"source":0,"epoch":1,"sample":53,"begin":2544,"end":2593,"documents":[{"document":58,"file":"squares","index":57},{"document":59,"file":"squares","index":58}]},{"row":1,"source":0,"epoch":1,"sample":68,"begin":3264,"end":3313,"documents":[{"document":74,"file":"squares","index":73},{"document":75,"file":"squares","index":74}]}]}

# Whole documents, and pairs, which are never cut where they fit.
$ axonn data show step=5 data.train=squares data.packing=whole model.seq=96 train.batch=2
| row 0  source 0  epoch 1  sample 20  tokens 1583..1666  documents 40 (squares number 40), 41 (squares number 41)
| row 1  source 0  epoch 1  sample 7  tokens 515..594  documents 14 (squares number 14), 15 (squares number 15)
$ axonn data show --step 5 data.train=sums.jsonl model.seq=48 train.batch=2 data.valid_fraction=0
| row 0  source 0  epoch 1  sample 20  tokens 778..817  documents 40 (sums.jsonl line 41), 41 (sums.jsonl line 42)
| row 1  source 0  epoch 1  sample 7  tokens 258..297  documents 14 (sums.jsonl line 15), 15 (sums.jsonl line 16)

# A mixture: shares, epochs of each source.
$ axonn data show --step 3 data.train=squares@0.75,sums.jsonl@0.25 model.seq=64 train.batch=8
| row 0  source 0  epoch 1  sample 46  tokens 2944..3008  documents 71 (squares number 71), 72 (squares number 72), 73 (squares number 73)
| row 1  source 0  epoch 1  sample 47  tokens 3008..3072  documents 73 (squares number 73), 74 (squares number 74)
| row 2  source 1  epoch 1  sample 18  tokens 1063..1125  documents 54 (sums.jsonl line 55), 55 (sums.jsonl line 56), 56 (sums.jsonl line 57)
| row 3  source 0  epoch 1  sample 44  tokens 2816..2880  documents 68 (squares number 68), 69 (squares number 69), 70 (squares number 70)
| row 4  source 0  epoch 1  sample 16  tokens 1024..1088  documents 26 (squares number 26), 27 (squares number 27), 28 (squares number 28)
| row 5  source 0  epoch 1  sample 11  tokens 704..768  documents 18 (squares number 18), 19 (squares number 19), 20 (squares number 20)
| row 6  source 1  epoch 1  sample 7  tokens 398..457  documents 21 (sums.jsonl line 22), 22 (sums.jsonl line 23), 23 (sums.jsonl line 24)
| row 7  source 0  epoch 1  sample 1  tokens 64..128  documents 1 (squares number 1), 2 (squares number 2), 3 (squares number 3)
$ for s in 1 2 3 4 5; do axonn data show --step $s data.train=squares@0.7,sums.jsonl@0.3 model.seq=64 train.batch=20; done | awk '{ n[$4]++ } END { print n[0], n[1] }'
| 70 30

# Bare ids have documents where the end-of-document id stands; 256 is 00 01.
$ printf 'a\0b\0\0\1c\0d\0e\0\0\1f\0g\0h\0\0\1' >bare.bin
$ axonn data show --step 1 data.train=bare.bin:uint16 model.seq=4 train.batch=2 data.valid_fraction=0
| row 0  source 0  epoch 1  sample 0  tokens 0..4  documents 0 (bare.bin:uint16 number 0), 1 (bare.bin:uint16 number 1)
| row 1  source 0  epoch 1  sample 1  tokens 4..8  documents 1 (bare.bin:uint16 number 1), 2 (bare.bin:uint16 number 2)
$ axonn data show --step 1 data.train=bare.bin model.seq=4 train.batch=2
! axonn: error: bare.bin: there is no .idx beside it and it has no llm.c header, so nothing tells how wide its ids are: write bare.bin:uint16 or bare.bin:uint32
[2]
$ printf '\377\377a\0b\0c\0d\0' >wide.bin; axonn data show --step 1 data.train=wide.bin:uint16 model.seq=4 train.batch=1
! axonn: error: wide.bin: token 0 is 65535, but the vocabulary has 257 ids: another tokenizer made the file, or its ids have another width
[1]

# Training on them; epochs in place of steps.
$ cat >run.yaml <<END
> data: {train: [squares@0.75, sums.jsonl@0.25], document_mask: on}
> model: {arch: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 48}
> train: {epochs: 1.5, batch: 4, lr: 3e-3, out: run}
> device: ref
> END
$ axonn train --config run.yaml
! axonn: data: 1.5 epochs of 94 samples, 4 a step: 36 steps
! axonn: train: Llama, 0.04 million parameters, f64, 1 rank, grid x=1,y=1,z=1,data=1
! axonn: data: 4258 tokens to learn from, 228 held out
! axonn: plan: activations sharded, 4 sequences a micro-batch, 1 micro-batch a step, N MiB a rank
! step 1/36  loss 5.5503  N tokens/s  N left
! step 10/36  loss 4.4799  N tokens/s  N left
! step 20/36  loss 3.6494  N tokens/s  N left
! step 30/36  loss 3.3778  N tokens/s  N left
! step 36/36  loss 3.3566  N tokens/s  N left
! axonn: eval: scoring the held-out tokens
! step 36  held out: loss 3.3895  perplexity 29.65
! axonn: train: saved in run/step-00000036
$ grep -E 'steps|epochs' run/config.yaml
|   steps: 36
|   epochs: 0
$ axonn train --config run.yaml train.out=grid --grid x=2,z=2 -q && for d in run grid; do grep -oE '"loss":.{10}' $d/metrics.jsonl >$d.losses; done; cmp run.losses grid.losses && wc -l <grid.losses
| 36
$ axonn train --config run.yaml train.steps=4
! axonn: error: train.epochs=1.5 and train.steps=4: give one
[2]

# Cut and resumed, a mixture goes on with the same samples; the epochs may be given again.
$ axonn train --config run.yaml train.out=cut train.wall_time=0.001 -q >stopped 2>&1; echo $?; grep -c '"loss"' cut/metrics.jsonl
| 75
| 1
$ axonn train --config run.yaml train.out=cut train.resume=auto train.wall_time=0 -q --grid z=2 && grep -oE '"loss":.{10}' cut/metrics.jsonl | cmp - run.losses

# Scores do not depend on batch or grid: masked text, completions, a mixture with both.
$ score() { axonn eval model.init=run device=ref --json "$@" | sed -E 's/.*"valid_loss":(.{10}).*"tokens":([0-9]+),"seconds":[^,}]*(.{17})?.*/\1 of \2 tokens\3/'; }
> for data in "data.valid=squares data.document_mask=off" data.valid=squares "data.valid=squares.jsonl data.document_mask=off" "data.valid=sums.jsonl data.document_mask=off" "data.train=squares@0.7,sums.jsonl@0.3 data.valid_fraction=0.3 data.document_mask=on"; do
> score $data train.batch=1 >a; score $data train.batch=7 >b; score $data train.batch=4 --grid x=2,data=2 >c; score $data train.batch=6 --grid y=2,z=3 >d
> cat a; cmp a b && cmp a c && cmp a d; done
| 3.37052358 of 3296 tokens
| 3.35268751 of 3217 tokens
| 3.37052358 of 3296 tokens,"bits_per_byte":
| 3.58468318 of 187 tokens
| 3.38334835 of 1028 tokens

# What is refused.
$ axonn train data.train=squares.jsonl@0.7,sums.jsonl
! axonn: error: data.train=squares.jsonl@0.7,sums.jsonl: some files carry a weight (@) and some do not; give one to all or to none
[2]
$ axonn train data.train=squares.jsonl@many,sums.jsonl@1
! axonn: error: data.train: 'squares.jsonl@many': a weight is a number above 0 behind the file, as in FILE@0.7
[2]
$ axonn train data.train=squares.jsonl@1,sums.jsonl@0
! axonn: error: data.train: 'sums.jsonl@0': a weight is a number above 0 behind the file, as in FILE@0.7
[2]
$ axonn train data.train=squares.jsonl data.valid=sums.jsonl@0.5
! axonn: error: data.valid=sums.jsonl@0.5: held-out files carry no weights; each of their tokens counts once
[2]
$ cat squares.jsonl sums.jsonl >both.jsonl; axonn train data.train=both.jsonl
! axonn: error: both.jsonl:81: a prompt and completion after lines with a text; a file holds one kind, so put the other into a file of its own
[1]
$ axonn train data.train=sums.jsonl model.preset=tiny train.batch=64
! axonn: error: the training data holds 19 samples of whole documents (data.packing), a step needs 64 (train.batch): 1126 tokens are too few; add data, or lower train.batch
[2]
$ axonn data show --step 1 data.train=pages.txt@1,squares@1 model.seq=512 train.batch=1
! axonn: error: pages.txt: no sample to mix in; one needs 513 tokens (model.seq + 1), and what is left of the file's 232 for training is less
[2]
$ axonn data show data.train=squares
! axonn: error: data show needs a step: --step N, from 1
[2]
$ axonn data
! axonn: error: data needs the word show: axonn data show --step N
[2]
$ axonn data show --step 0 data.train=squares
! axonn: error: command line: step=0: the value must be an integer in 1..1099511627776
[2]
$ axonn data show --step
! axonn: error: command line: step=: the value must be an integer in 1..1099511627776
[2]
