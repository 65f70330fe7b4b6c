# Texts that can not be trained on are refused before anything is allocated.
$ axonn train
! axonn: error: data.train is not set: name a text, a JSONL or a token file
[2]
$ axonn train data.train=missing.txt
! axonn: error: missing.txt: No such file or directory
[2]
$ : >empty.txt; axonn train data.train=empty.txt
! axonn: warning: skipped 1 empty files and 0 empty documents
! axonn: error: the training data holds 0 samples, a step needs 8 (train.batch), a sample needs 257 tokens (model.seq + 1): 0 tokens are too few; add data, or lower one of the two
[2]
$ printf 'a short text' >short.txt; axonn train data.train=short.txt model.preset=tiny train.batch=4
! axonn: error: the training data holds 0 samples, a step needs 4 (train.batch), a sample needs 65 tokens (model.seq + 1): 12 tokens are too few; add data, or lower one of the two
[2]
$ printf '{"text": "one"}\n{"txt": "two"}\n' >a.jsonl; axonn train data.train=a.jsonl
! axonn: error: a.jsonl:2: byte 0: the object has no key 'text'; data.text_key names it
[1]
$ printf '{"text": "one"}\n{"text": \n' >b.jsonl; axonn train data.train=b.jsonl
! axonn: error: b.jsonl:2: byte 8: the line ends inside of the object
[1]
$ awk 'BEGIN { for (i = 0; i < 400; i++) print i, i * i }' >squares.txt
$ axonn train data.train=squares.txt data.tokenizer=words
! axonn: error: data.tokenizer=words: No such file or directory; give byte, a tokenizer.json or its directory
[2]
$ axonn train data.train=squares.txt model.preset=tiny model.vocab=100
! axonn: error: model.vocab=100 is smaller than the 257 ids of data.tokenizer=byte
[2]
$ axonn train data.train=squares.txt data.valid_fraction=2
! axonn: error: command line: data.valid_fraction=2: the value must be a number in 0..0.99
[2]
# Several files, and a held-out file of its own.
$ printf '{"text": "%s"}\n' $(cat squares.txt) >squares.jsonl
$ axonn train -q data.train=squares.txt,squares.jsonl data.valid=short.txt model.preset=tiny model.seq=16 train.batch=2 train.steps=1 device=ref
