# Wrong use ends with 2 and one message that names what is wrong.
$ axonn trian
! axonn: error: no verb 'trian'; did you mean 'train'? (axonn help lists all)
[2]
$ axonn frobnicate
! axonn: error: no verb 'frobnicate' (axonn help lists all)
[2]
$ axonn train trian.steps=3
! axonn: error: command line: unknown key 'trian.steps'; the nearest known key is 'train.steps'
[2]
$ axonn train model.hiden=3
! axonn: error: command line: unknown key 'model.hiden'; the nearest known key is 'model.hidden'
[2]
$ axonn train what.is.this=3
! axonn: error: command line: unknown key 'what.is.this'; `axonn help keys` lists all
[2]
$ axonn train train.lr=fast
! axonn: error: command line: train.lr=fast: the value must be a number in 0..
[2]
$ axonn train train.lr=-1
! axonn: error: command line: train.lr=-1: the value must be a number in 0..
[2]
$ axonn train train.steps=0
! axonn: error: command line: train.steps=0: the value must be an integer in 1..
[2]
$ axonn train train.steps=1e400
! axonn: error: command line: train.steps=1e400: the value must be an integer in 1..
[2]
$ axonn train train.schedule=sine
! axonn: error: command line: train.schedule=sine: the value must be one of cosine|linear|constant|wsd
[2]
$ axonn train train.keep_gathered=maybe
! axonn: error: command line: train.keep_gathered=maybe: the value must be on or off
[2]
$ axonn train train.overlap=oag,nag
! axonn: error: train.overlap=oag,nag: 'nag' is none of on, off, oag, rag, oar, ors, data, update
[2]
$ axonn train model.preset=lama2-7b
! axonn: error: model.preset=lama2-7b: no such preset; the nearest is 'llama2-7b'
[2]
$ axonn train train.min_lr=1 train.lr=1e-3
! axonn: error: train.min_lr=1 is above train.lr=0.001
[2]
$ axonn train stray words
! axonn: error: command line: unexpected argument 'stray'; settings are written key=value
[2]
$ axonn train --steps
! axonn: error: command line: unknown key 'steps'; the nearest known key is 'train.steps'
[2]
$ axonn train -x
! axonn: error: command line: unknown switch '-x'; there are -q, -v, -h, --json, --config FILE and --KEY VALUE
[2]
$ axonn train --config
! axonn: error: command line: --config needs a file
[2]
$ axonn train --config no-such.yaml
! axonn: error: no-such.yaml: No such file or directory
[2]
$ axonn generate
! axonn: error: generate needs a model: model.init=DIR, a run directory or a checkpoint
[2]
$ axonn eval
! axonn: error: eval needs a model: model.init=DIR, a run directory or a checkpoint
[2]
$ axonn generate model.init=no-such-run
! axonn: error: model.init=no-such-run: No such file or directory
[2]
$ mkdir empty && axonn generate model.init=empty
! axonn: error: empty/manifest.json: not there: the directory is no checkpoint, or was never finished
[1]

# Files are read strictly: the line is named.
$ printf 'train:\n  steps: 3\n  lrr: 1e-3\n' >a.yaml; axonn train --config a.yaml
! axonn: error: a.yaml:3: unknown key 'train.lrr'; the nearest known key is 'train.lr'
[2]
$ printf 'train:\n  steps: 3\n  steps: 4\n' >b.yaml; axonn train --config b.yaml
! axonn: error: b.yaml:3: train.steps is set twice, first at b.yaml:2; keep one
[2]
$ printf 'train:\n  steps: three\n' >c.yaml; axonn train --config c.yaml
! axonn: error: c.yaml:2: train.steps=three: the value must be an integer in 1..
[2]
$ printf 'train: {steps: 3\n' >d.yaml; axonn train --config d.yaml
! axonn: error: d.yaml:2:1: not valid YAML: did not find expected ',' or '}'
[2]
$ printf 'train:\n  steps:\n' >e.yaml; axonn train --config e.yaml
! axonn: error: e.yaml:2:3: train.steps has no value
[2]

# The line wins over the file.
$ printf 'train:\n  steps: 3\n' >f.yaml; axonn train --config f.yaml train.steps=none
! axonn: error: command line: train.steps=none: the value must be an integer in 1..
[2]

# Whatever is wrong with a configuration is wrong use.
$ printf 'train: [1, {}]\n' >g.yaml; axonn train --config g.yaml
! axonn: error: g.yaml:1:12: an item of a list must be a plain value
[2]
$ printf 'a: \377\n' >h.yaml; axonn train --config h.yaml
! axonn: error: h.yaml:1:4: not valid YAML: invalid leading UTF-8 octet
[2]
$ printf '%%YAML 7\n' >i.yaml; axonn eval --config i.yaml
! axonn: error: i.yaml:1:8: not valid YAML: did not find expected digit or '.' character
[2]
$ mkdir j.yaml; axonn train --config j.yaml
! axonn: error: j.yaml: Is a directory
[2]

# A key that a verb does not read is refused on the line; a file serves every verb.
$ axonn eval model.init=run data.valid=text train.steps=5
! axonn: error: command line: eval does not read train.steps; leave it out
[2]
$ axonn eval model.init=run data.valid=text --train.resume auto
! axonn: error: command line: eval does not read train.resume; leave it out
[2]
$ axonn generate model.init=run data.train=text
! axonn: error: command line: generate does not read data.train; leave it out
[2]
$ axonn generate model.init=run train.out=run
! axonn: error: command line: generate does not read train.out; leave it out
[2]
$ axonn data show --step 1 data.train=text train.lr=1
! axonn: error: command line: data does not read train.lr; leave it out
[2]
$ axonn data show --step 1 data.train=text --grid x=2
! axonn: error: command line: data does not read grid; leave it out
[2]
$ axonn selftest train.save_every=2
! axonn: error: command line: selftest does not read train.save_every; leave it out
[2]
$ axonn convert a b train.precision=bf16
! axonn: error: command line: convert does not read train.precision; leave it out
[2]
$ axonn convert a b model.init=c
! axonn: error: command line: convert does not read model.init; leave it out
[2]
$ axonn prepare data.train=a.txt out=a train.threads=2
! axonn: error: command line: prepare does not read train.threads; leave it out
[2]
$ axonn checkpoint list run train.keep=2
! axonn: error: command line: checkpoint does not read train.keep; leave it out
[2]
$ axonn info --ranks 2
! axonn: error: command line: info does not read ranks; leave it out
[2]
$ axonn train data.train=text generate.tokens=5
! axonn: error: command line: train does not read generate.tokens; leave it out
[2]
$ printf 'train: {steps: 5, resume: auto}\nmodel: {init: run}\n' >all.yaml; axonn eval --config all.yaml data.valid=text
! axonn: error: model.init=run: No such file or directory
[2]
