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
! axonn: error: deep/.tmp-er: cannot make the directory: No such file or directory
[1]
$ axonn convert start
! axonn: error: convert needs two directories: axonn convert FROM TO
[2]
$ axonn convert llama other convert.dtype=bf16
! axonn: error: convert.dtype: a checkpoint holds fp32; leave the key out
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
$ ls -A | tr '\n' ' '
| again back llama small start there \
