# Hugging Face directories in and out.
$ cp -r $SOURCE/tests/golden/hf/llama_biases llama
$ axonn convert llama start
| start: checkpoint, 39776 parameters, F32
$ axonn convert start again --grid x=2,z=2
| again: Hugging Face directory, 39776 parameters, F32
$ ls start again
| again:
| config.json
| generation_config.json
| model.safetensors
|
| start:
| config.json
| generation_config.json
| manifest.json
| model.safetensors
$ axonn convert llama start
! axonn: error: start: exists; convert to a new name
[2]
$ axonn convert start deep/er
! axonn: error: deep/er: there is no directory deep to put it into
[2]
$ axonn convert start
! axonn: error: convert needs two directories: axonn convert FROM TO
[2]
$ axonn convert llama other convert.dtype=bf16 convert.to=checkpoint
! axonn: error: convert.dtype: a checkpoint holds fp32; leave the key out
[2]
$ axonn convert llama other convert.shard_bytes=30k convert.to=checkpoint
! axonn: error: convert.shard_bytes: the weights of a checkpoint are one file; leave the key out
[2]
$ axonn convert start other convert.to=checkpoint
! axonn: error: convert.to=checkpoint: start is one already
[2]
$ axonn convert nowhere other
! axonn: error: nowhere: No such file or directory
[2]
$ mkdir empty && axonn convert empty other
! axonn: error: empty: no model is there: neither config.json of a Hugging Face directory, nor manifest.json of a checkpoint, nor `latest` of a run
[2]
$ axonn convert start small convert.dtype=bf16 convert.shard_bytes=30k --json && ls small
| {"path":"small","kind":"hf","parameters":39776,"dtype":"BF16"}
| config.json
| generation_config.json
| model-00001-of-00003.safetensors
| model-00002-of-00003.safetensors
| model-00003-of-00003.safetensors
| model.safetensors.index.json
$ axonn convert small back -q && cat back/manifest.json | grep -c '"format"'
| back: checkpoint, 39776 parameters, F32
| 1

# A tokenizer travels with its model.
$ echo '{}' >back/tokenizer.json && axonn convert back there -q && ls there
| there: Hugging Face directory, 39776 parameters, BF16
| config.json
| generation_config.json
| model.safetensors
| tokenizer.json

# From such a directory to another one, in other elements, and in other files. F16 goes through a
# checkpoint and comes back as it was.
$ axonn convert llama narrow convert.dtype=bf16 && ls narrow && grep -c bfloat16 narrow/config.json
| narrow: Hugging Face directory, 39776 parameters, BF16
| config.json
| generation_config.json
| model.safetensors
| 1
$ axonn convert llama shards convert.shard_bytes=60k --ranks 2 && ls shards
| shards: Hugging Face directory, 39776 parameters, F32
| config.json
| generation_config.json
| model-00001-of-00003.safetensors
| model-00002-of-00003.safetensors
| model-00003-of-00003.safetensors
| model.safetensors.index.json
$ axonn convert llama same convert.to=hf -q && for f in $(ls same); do echo $f; done
| same: Hugging Face directory, 39776 parameters, F32
| config.json
| generation_config.json
| model.safetensors
$ axonn convert $SOURCE/tests/golden/hf/gpt2_bare half -q && axonn convert half bare
| half: checkpoint, 26176 parameters, F32
| bare: Hugging Face directory, 26176 parameters, F16
$ axonn convert bare twice convert.to=hf -q && cmp bare/model.safetensors twice/model.safetensors
| twice: Hugging Face directory, 26176 parameters, F16

# A place is claimed, and what a killed conversion left is taken away, nothing else.
$ (echo "host $(hostname) pid 1 job none" >.wide.lock; flock .wide.lock axonn convert llama wide convert.dtype=fp32) 2>&1 | sed "s/$(hostname)/HOST/"
| axonn: error: wide: in use by process 1 on host HOST (job none)
$ echo "host elsewhere pid 7 job none" >.wide.lock; axonn convert llama wide
! axonn: error: wide: in use by process 7 on host elsewhere (job none); if nothing runs there any more, remove ./.wide.lock
[2]
$ rm .wide.lock; mkdir .tmp-wide .tmp-.tmp-wide; touch .tmp-wide/model.safetensors .tmp-wide/config.json; axonn convert llama wide
| wide: checkpoint, 39776 parameters, F32
! axonn: warning: ./.tmp-wide: removed what a killed conversion left
! axonn: warning: ./.tmp-.tmp-wide: removed what a killed conversion left
$ mkdir .tmp-kept; touch .tmp-kept/letter.doc .tmp-kept/config.json; axonn convert llama kept; ls .tmp-kept; rm -r .tmp-kept
| config.json
| letter.doc
! axonn: error: ./.tmp-kept: is in the way, and not all of it is a conversion's; move it away

# Dropout is noted, unknown keys are listed once.
$ cp -r narrow noisy && sed -i 's/"attention_dropout": 0.0/"attention_dropout": 0.1, "flavour": 1, "colour": 2/' noisy/config.json && axonn convert noisy quiet --ranks 2
| quiet: checkpoint, 39776 parameters, F32
! axonn: model: noisy/config.json: dropout is not applied (attention_dropout)
! axonn: warning: noisy/config.json: keys that are not known here are passed over: flavour, colour

# What is not implemented, and what does not fit.
$ sed -i 's/"hidden_act": "silu"/"hidden_act": "gelu"/' again/config.json && axonn convert again x
! axonn: error: again/config.json: 'hidden_act' is 'gelu'; only 'silu' is implemented
[1]
$ axonn eval model.init=llama model.hidden=64 data.valid=none
! axonn: error: model.hidden=64, but the model in llama has 32: leave the key out
[2]
$ axonn eval model.init=llama model.seq=25 data.valid=none
! axonn: error: model.seq=25, but the model in llama knows 24 positions
[2]
$ axonn eval model.init=llama model.preset=tiny data.valid=none
! axonn: error: model.preset=tiny beside model.init=llama: the checkpoint brings its own model; leave one out
[2]
$ rm llama/model-00002-of-00002.safetensors && axonn convert llama x
! axonn: error: llama/model-00002-of-00002.safetensors: cannot open: No such file or directory
[1]
$ sed -i 's/"sliding_window": null/"sliding_window": 4096/; s/"model_type"/"sliding_window": 4096, "model_type"/' small/config.json && axonn convert small x
! axonn: error: small/config.json: 'sliding_window': attention over a sliding window is not implemented
[1]
$ ls -A | tr '\n' ' '
| again back bare empty half llama narrow noisy quiet same shards small start there twice wide \
