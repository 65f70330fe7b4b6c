# A Hugging Face directory is a model like any other: score it, generate from it, train it on.
$ cp -r $SOURCE/tests/golden/hf/llama_tied llama && for i in $(seq 90); do echo "$i times $((i % 7)) is $((i * (i % 7))), and so on"; done >text
$ axonn tokenizer train data.train=text tokenizer.vocab=323 out=llama
| llama/tokenizer.json: 318 tokens, no other pair stands twice
$ axonn eval model.init=llama data.valid=text device=ref
| loss 5.805349  perplexity 332.071  tokens 1015  N s  3.3468 bits per byte
$ axonn eval model.init=llama data.valid=text device=ref --grid x=2,y=2 -q
| loss 5.805349  perplexity 332.071  tokens 1015  N s  3.3468 bits per byte
$ axonn eval model.init=llama data.valid=text device=ref model.seq=12 --json -q | cut -c1-30
| {"valid_loss":5.811066824~
$ axonn generate model.init=llama "7 times" generate.tokens=6 generate.temperature=0 device=ref -q | od -An -tx1
|  37 20 74 69 6d 65 73 83 17 35 32 27 66 66 0a
$ axonn generate model.init=llama "7 times" generate.tokens=6 generate.temperature=0 device=ref --grid x=2,z=2 -q | od -An -tx1
|  37 20 74 69 6d 65 73 83 17 35 32 27 66 66 0a

# Trained on one grid, exported on another: the tokenizer goes with it, and the numbers stay.
$ axonn train model.init=llama data.train=text train.out=tuned train.steps=6 train.batch=4 train.lr=1e-2 device=ref --grid x=2,data=2 -q
$ axonn eval model.init=tuned data.valid=text device=ref -q
| loss 5.562244  perplexity 260.407  tokens 1015  N s  3.2067 bits per byte
$ axonn convert tuned tuned-hf --ranks 3 && ls tuned-hf
| tuned-hf: Hugging Face directory, 28928 parameters, F32
| config.json
| generation_config.json
| model.safetensors
| tokenizer.json
$ axonn eval model.init=tuned-hf data.valid=text device=ref -q
| loss 5.562244  perplexity 260.407  tokens 1015  N s  3.2067 bits per byte
$ axonn convert tuned-hf tuned-16 convert.dtype=bf16 -q && axonn eval model.init=tuned-16 data.valid=text device=ref -q
| tuned-16: Hugging Face directory, 28928 parameters, BF16
| loss 5.562063  perplexity 260.359  tokens 1015  N s  3.2066 bits per byte
$ axonn train model.init=tuned-hf data.train=text train.steps=2 train.batch=4 device=ref --grid y=2,z=2 -q

# A run has all that belongs to its model, and so has each of its steps: where it came from may vanish.
$ mkdir moved && mv llama moved && ls tuned/tokenizer tuned/step-00000006
| tuned/step-00000006:
| config.json
| generation_config.json
| manifest.json
| model.safetensors
| optimizer.safetensors
| tokenizer.json
|
| tuned/tokenizer:
| config.json
| generation_config.json
| tokenizer.json
$ axonn eval model.init=tuned data.valid=text device=ref -q
| loss 5.562244  perplexity 260.407  tokens 1015  N s  3.2067 bits per byte
$ axonn train train.out=tuned train.resume=auto train.steps=8 train.save_every=1 train.keep=1 -q && ls tuned
| config.yaml
| latest
| metrics.jsonl
| step-00000008
| tokenizer
$ axonn generate model.init=tuned "7 times" generate.tokens=6 generate.temperature=0 device=ref -q | od -An -tx1
|  37 20 74 69 6d 65 73 2e 45 fa 0a 2e 37 37 0a
$ cp -r tuned/step-00000008 alone && axonn convert alone alone-hf && diff -rq moved/llama alone-hf
| alone-hf: Hugging Face directory, 28928 parameters, F32
| Files moved/llama/config.json and alone-hf/config.json differ
| Files moved/llama/model.safetensors and alone-hf/model.safetensors differ
[1]
$ axonn train train.resume=alone train.out=further train.steps=9 -q && ls further/tokenizer further/step-00000009
| further/step-00000009:
| config.json
| generation_config.json
| manifest.json
| model.safetensors
| optimizer.safetensors
| tokenizer.json
|
| further/tokenizer:
| config.json
| generation_config.json
| tokenizer.json
$ mv moved/llama .

# A tokenizer.json by another name goes along with its settings, and not with its neighbours. Bytes
# need no files, and an export says so.
$ mkdir words && cp $SOURCE/tests/golden/tokenizers/gpt2.json words/any.json && echo '{"eos_token": "!"}' >words/tokenizer_config.json && echo '{}' >words/vocab.json
$ axonn train data.tokenizer=words/any.json data.train=text model.preset=tiny model.hidden=32 train.batch=2 train.steps=2 train.out=named -q
$ rm -r words && ls named/tokenizer && axonn train train.resume=auto train.out=named train.steps=3 -q && axonn convert named named-hf && axonn tokenizer inspect data.tokenizer=named-hf | head -n 3
| tokenizer.json
| tokenizer_config.json
| named-hf: Hugging Face directory, 87968 parameters, F32
| vocab 700
| eod 1 "!"
| bos none
$ rm named/step-00000003/tokenizer*.json && axonn convert named bare-hf && ls bare-hf
| bare-hf: Hugging Face directory, 87968 parameters, F32
| config.json
| model.safetensors
! axonn: warning: bare-hf gets no tokenizer: words/any.json is not there any more
$ axonn train data.tokenizer=named-hf data.train=text model.preset=tiny model.hidden=32 train.batch=2 train.steps=2 train.out=bytes data.tokenizer=byte -q && axonn convert bytes bytes-hf && ls bytes bytes-hf
| bytes-hf: Hugging Face directory, 59616 parameters, F32
| bytes:
| config.yaml
| latest
| metrics.jsonl
| step-00000002
|
| bytes-hf:
| config.json
| model.safetensors
! axonn: convert: bytes-hf gets no tokenizer: the model reads bytes, as ids 0 to 255, and 256 ends a text

# Without a tokenizer text is bytes, which the vocabulary must hold.
$ rm llama/tokenizer.json; axonn eval model.init=llama data.valid=text device=ref
| loss 5.778538  perplexity 323.286  tokens 2540  N s  8.3367 bits per byte
! axonn: data: llama has no tokenizer: text is read as bytes (data.tokenizer)
$ axonn eval model.init=llama data.valid=text data.tokenizer=$SOURCE/tests/golden/tokenizers/gpt2.json
! axonn: error: model.vocab=323 is smaller than the 700 ids of data.tokenizer=SOURCE/tests/golden/tokenizers/gpt2.json
[2]
