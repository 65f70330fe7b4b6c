# Ids and text, and a tokenizer of one's own.
$ printf 'low lower lowest\nnew newer newest\nlow new low new' >words.txt
$ axonn tokenizer train data.train=words.txt tokenizer.vocab=270 out=words
| words/tokenizer.json: 266 tokens, no other pair stands twice
$ axonn tokenizer inspect data.tokenizer=words
| vocab 266
| eod 265 "<|endoftext|>"
| bos none
| special 265
$ axonn tokenizer inspect data.tokenizer=words/tokenizer.json --json
| {"vocab": 266, "eod": 265, "eod_text": "<|endoftext|>", "bos": -1, "bos_text": null, "special": [265]}
$ axonn tokenizer inspect data.tokenizer=words 0 256 260
| 0 "!" bytes 21
| 256 "ew" bytes 65 77
| 260 "Ġnew" bytes 20 6e 65 77
$ axonn tokenizer encode data.tokenizer=words words.txt
| 259 261 262 261 264 198 258 260 262 260 264 198 259 260 261 260
$ axonn tokenizer encode data.tokenizer=words words.txt >ids.txt; axonn tokenizer decode data.tokenizer=words ids.txt | cmp - words.txt
$ printf 'low<|endoftext|>' | axonn tokenizer encode data.tokenizer=words
| 259 27 91 68 77 67 78 69 83 68 87 83 91 29
$ printf 'low<|endoftext|>' | axonn tokenizer encode data.tokenizer=words data.literals=tokens
| 259 265
$ printf 'ab\377' | axonn tokenizer encode
| 97 98 255
$ printf 'data:\n  tokenizer: words\n  literals: tokens\n' >t.yaml; printf 'low<|endoftext|>' | axonn tokenizer encode --config t.yaml
| 259 265
$ printf 'low<|endoftext|>' | axonn tokenizer encode --config t.yaml data.literals=text -q
| 259 27 91 68 77 67 78 69 83 68 87 83 91 29
# What is refused.
$ axonn tokenizer encode --config t.yaml --config t.yaml
! axonn: error: command line: --config t.yaml and --config t.yaml; give one
[2]
$ printf 'data: [' >u.yaml; axonn tokenizer encode --config=u.yaml
! axonn: error: u.yaml:2:1: not valid YAML: did not find expected node content
[2]
$ printf 'data: {tokeniser: x}' >v.yaml; axonn tokenizer encode --config v.yaml
! axonn: error: v.yaml:1: unknown key 'data.tokeniser'; the nearest known key is 'data.tokenizer'
[2]
$ axonn tokenizer
! axonn: error: tokenizer needs one of encode, decode, inspect, train
[2]
$ axonn tokenizer spell
! axonn: error: tokenizer spell: there are encode, decode, inspect, train
[2]
$ axonn tokenizer encode data.tokenizer=missing words.txt
! axonn: error: data.tokenizer=missing: No such file or directory; give byte, a tokenizer.json or its directory
[2]
$ axonn tokenizer encode missing.txt
! axonn: error: missing.txt: No such file or directory
[2]
$ echo 5 270 | axonn tokenizer decode data.tokenizer=words
! axonn: error: token id 270: the words tokenizer has ids 0 to 265
[1]
$ echo 5 x | axonn tokenizer decode
! axonn: error: 'x' is not a token id
[1]
$ axonn tokenizer train data.train=words.txt out=words
! axonn: error: words/tokenizer.json is there already; name another directory
[2]
$ axonn tokenizer train data.train=words.txt
! axonn: error: tokenizer train needs out=DIRECTORY
[2]
$ axonn tokenizer train out=other
! axonn: error: tokenizer train needs data.train=FILE[,FILE...]
[2]
$ axonn tokenizer train data.train=words.txt out=other tokenizer.vocab=200
! axonn: error: command line: tokenizer.vocab=200: the value must be an integer in 257..1000000
[2]
$ mkdir empty; axonn tokenizer encode data.tokenizer=empty words.txt
! axonn: error: data.tokenizer=empty: the directory has neither tokenizer.json nor vocab.json and merges.txt
[2]
$ axonn tokenizer --help
| axonn tokenizer: train a byte-level BPE; encode, decode, inspect
|
|     axonn tokenizer encode data.tokenizer=models/llama book.txt
|     axonn tokenizer decode data.tokenizer=models/llama ids.txt
|     axonn tokenizer inspect data.tokenizer=models/llama 0 1 2
|     axonn tokenizer train data.train=book.txt tokenizer.vocab=4096 out=models/book
|
| Keys are key=value or --key value, on the line or in a YAML file (--config);
| the line wins. axonn help keys lists them.
