# Text and JSON lines become a pair of token files.
$ printf '{"text": "one"}\r\n\n{"text": ""}\n{"text": "two", "id": 2}' >a.jsonl; printf 'a whole\nfile' >b.txt
$ axonn prepare data.train=a.jsonl,b.txt out=corpus prepare.threads=2
| corpus.bin, corpus.idx: 3 documents, 21 tokens of 2 bytes, from 18 bytes of text
| left out: 1 empty documents, 0 lines that are no documents
| N MB/s, 2 threads
$ od -An -v -tu2 corpus.bin | tr -s ' \n' ' '; echo; ls -A
|  111 110 101 256 116 119 111 256 97 32 119 104 111 108 101 10 102 105 108 101 256 
| a.jsonl
| b.txt
| corpus.bin
| corpus.idx
$ axonn prepare data.train=a.jsonl out=again data.eod=off prepare.threads=1 --json; od -An -v -tu2 again.bin
| {"out": "again", "documents": 2, "tokens": 6, "bytes": N, "skipped": 0, "empty": 1, "token_bytes": 2, "vocab": 257, "threads": 1, "seconds": N, "mb_per_s": N}
|    111   110   101   116   119   111
$ axonn help prepare
| axonn prepare: text and JSON lines to token files, with document borders
|
|     axonn prepare data.tokenizer=models/llama data.train=a.jsonl,b.jsonl.zst out=corpus
|     axonn prepare data.tokenizer=models/llama data.train=a.jsonl out=corpus --on-error skip
|     axonn train data.tokenizer=models/llama data.train=corpus
|
| Keys are key=value or --key value, on the line or in a YAML file (--config);
| the line wins. axonn help keys lists them.
|
| It reads these keys (axonn help KEY tells of one):
|     ranks data.train data.valid data.tokenizer data.text_key data.bos data.eod data.literals
|     prepare.out prepare.threads prepare.on_error
# What is there stays.
$ axonn prepare data.train=a.jsonl out=corpus
! axonn: error: corpus.idx: exists; write to a new name
[2]
$ rm corpus.idx; axonn prepare data.train=a.jsonl out=corpus
! axonn: error: corpus.bin: exists, without corpus.idx: if a writer was killed between the two, remove it; else write to a new name
[2]
$ axonn prepare data.train=a.jsonl out=none/corpus
! axonn: error: out=none/corpus: there is no such directory; make it first
[2]
$ axonn prepare data.train=a.jsonl out=.
! axonn: error: out=.: this is a directory; name a file in it, as ./corpus
[2]
$ axonn prepare data.train=a.jsonl out=folder/
! axonn: error: out=folder/: name a file in it, as folder/corpus
[2]
$ axonn prepare data.train=a.jsonl
! axonn: error: prepare needs out=PREFIX, and writes PREFIX.bin and PREFIX.idx
[2]
$ axonn prepare out=c
! axonn: error: data.train is not set: name text or JSONL files
[2]
$ axonn prepare data.train=a.jsonl out=c --ranks 2
! axonn: error: prepare has no ranks; prepare.threads is what it has
[2]
$ axonn prepare data.train=a.jsonl out=c train.out
! axonn: error: command line: unexpected argument 'train.out'; settings are written key=value
[2]
$ axonn train out=c data.train=a.jsonl
! axonn: error: command line: unknown key 'out'; the nearest known key is 'train.out'
[2]
# A line that is no document stops the work, or is counted.
$ printf '{"text": "one"}\n{"txt": 1}\nnothing\n{"text": "\377"}\n{"text": 1}\n{"text": "two"}\n' >bad.jsonl
$ axonn prepare data.train=bad.jsonl out=bad
! axonn: error: bad.jsonl:2: byte 0: the object has no key 'text'; data.text_key names it
[1]
$ axonn prepare data.train=bad.jsonl out=bad --on-error skip prepare.threads=2
| bad.bin, bad.idx: 2 documents, 8 tokens of 2 bytes, from 6 bytes of text
| left out: 0 empty documents, 4 lines that are no documents
| N MB/s, 2 threads
! axonn: warning: skipped: bad.jsonl:2: byte 0: the object has no key 'text'; data.text_key names it
! axonn: warning: skipped: bad.jsonl:3: byte 0: not a JSON object
! axonn: warning: skipped: bad.jsonl:4: byte 10: not valid UTF-8
$ axonn prepare data.train=bad.jsonl out=worse on_error=leave
! axonn: error: command line: prepare.on_error=leave: the value must be one of stop|skip
[2]
$ axonn prepare data.train=bad.jsonl out=worse prepare.on_error=skip data.text_key=body
! axonn: warning: skipped: bad.jsonl:1: byte 0: the object has no key 'body'; data.text_key names it
! axonn: warning: skipped: bad.jsonl:2: byte 0: the object has no key 'body'; data.text_key names it
! axonn: warning: skipped: bad.jsonl:3: byte 0: not a JSON object
! axonn: error: no document in data.train: 0 empty, 6 skipped
[2]
$ printf '{"prompt": "1+1=", "completion": "2"}\n' >pairs.jsonl; axonn prepare data.train=pairs.jsonl out=pairs
! axonn: error: pairs.jsonl:1: a prompt and its completion: a token file has no place for which ids to learn from; train on the JSONL itself
[2]
$ axonn prepare data.train=bad.bin,a.jsonl out=worse
! axonn: error: bad.bin: holds tokens already; prepare reads text, .jsonl and their .zst
[2]
$ ls -A
| a.jsonl
| again.bin
| again.idx
| b.txt
| bad.bin
| bad.idx
| bad.jsonl
| corpus.bin
| pairs.jsonl
# Literals of special tokens in a text are text; a key makes them tokens.
$ printf '{"text": "a<|endoftext|>b"}\n' >literal.jsonl; mkdir gpt2; cp $SOURCE/tests/golden/tokenizers/gpt2.json gpt2/tokenizer.json
$ axonn prepare -q data.tokenizer=gpt2 data.train=literal.jsonl out=text prepare.threads=1 >/dev/null; od -An -v -tu2 text.bin
|     65    28    92    69   263    79    70    84
|     69    88    84    92    30    66     0
$ axonn prepare -q data.tokenizer=gpt2 data.train=literal.jsonl out=token data.literals=tokens prepare.threads=1 >/dev/null; od -An -v -tu2 token.bin
|     65     0    66     0
$ axonn prepare data.tokenizer=gpt2 data.train=literal.jsonl out=begin data.bos=on
! axonn: error: data.tokenizer=gpt2 has no token that begins a document; set data.bos=off
[2]
# The keys of a run's own file serve, too.
$ printf 'data: {train: a.jsonl}\nprepare: {out: c, threads: 1}\n' >run.yaml; axonn prepare --config run.yaml
| c.bin, c.idx: 2 documents, 8 tokens of 2 bytes, from 6 bytes of text
| left out: 1 empty documents, 0 lines that are no documents
| N MB/s, 1 threads
