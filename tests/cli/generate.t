# Texts from a small model: one prompt as it comes, several in a batch, on grids, in both formats.
$ awk 'BEGIN { for (i = 0; i < 900; i++) print i, "squared is", i * i }' >squares.txt
$ axonn train -q data.train=squares.txt model.preset=tiny model.hidden=32 model.seq=48 train.batch=4 train.steps=40 train.lr=2e-2 train.out=run device=ref
$ axonn generate model.init=run "12 squared" generate.tokens=30 generate.temperature=0 device=ref
| 12 squared is is is is is is is is is is
! axonn: generate: 30 tokens generated after 10 of the prompts, in N s: N tokens/s

# Several prompts: each under its number; as JSON, a line each. Equal prompts have draws of their own.
$ axonn generate model.init=run "12 squared" "7" "7" generate.tokens=12 device=ref
| ==> 1 <==
| 12 squared 20
| 280 squa
|
| ==> 2 <==
| 795614
| 77 squ
|
| ==> 3 <==
| 7804
|  squared
! axonn: generate: 36 tokens generated after 12 of the prompts, in N s: N tokens/s
$ axonn generate model.init=run "12 squared" "7" "7" generate.tokens=12 device=ref --json 2>/dev/null
| {"prompt":"12 squared","text":" 20\n280 squa","tokens":12,"stopped":"length"}
| {"prompt":"7","text":"95614\n77 squ","tokens":12,"stopped":"length"}
| {"prompt":"7","text":"804\n squared","tokens":12,"stopped":"length"}
$ axonn generate model.init=run "12 squared" "7" "7" generate.tokens=12 device=ref --json --grid x=2,z=2 2>/dev/null
| {"prompt":"12 squared","text":" 20\n280 squa","tokens":12,"stopped":"length"}
| {"prompt":"7","text":"95614\n77 squ","tokens":12,"stopped":"length"}
| {"prompt":"7","text":"804\n squared","tokens":12,"stopped":"length"}

# A file of prompts, in rounds; the same texts as alone, beyond the context of 48 tokens, too.
$ printf '3 squared\n\n14 squared is\r\n5\n' >prompts.txt
$ axonn generate model.init=run generate.prompts=prompts.txt generate.batch=2 generate.tokens=70 generate.temperature=0 device=ref --json >many.json
! axonn: generate: 210 tokens generated after 23 of the prompts, in N s: N tokens/s
$ for p in "3 squared" "14 squared is" 5; do axonn generate -q model.init=run "$p" generate.tokens=70 generate.temperature=0 device=ref --json; done >single.json
$ wc -l <many.json; cmp many.json single.json
| 3
$ axonn generate -q model.init=run generate.prompts=prompts.txt generate.tokens=70 generate.temperature=0 device=ref --json --grid y=2,data=2 | cmp - single.json
$ printf '{"prompt": "2 squared\\n", "id": 1}\n' >prompts.jsonl
$ axonn generate -q model.init=run generate.prompts=prompts.jsonl generate.tokens=9 generate.temperature=0 device=ref
| ==> 1 <==
| 2 squared
| 6
| 6 is is

# Where texts end. High temperatures reach the end of a document soon; ids beyond the tokenizer's are
# never drawn, however large the model's vocabulary is.
$ axonn generate -q model.init=run a generate.tokens=3000 generate.temperature=90 generate.seed=4 device=ref --json | grep -o '"tokens".*'
| "tokens":330,"stopped":"eos"}
$ axonn generate -q model.init=run a generate.tokens=3000 generate.temperature=90 generate.seed=4 generate.stop=off device=ref --json | grep -o '"tokens".*'
| "tokens":3000,"stopped":"length"}
$ axonn train -q data.train=squares.txt model.preset=tiny model.hidden=32 model.seq=32 model.vocab=600 train.batch=4 train.steps=1 train.out=wide
$ axonn generate -q model.init=wide a generate.tokens=500 generate.temperature=90 generate.stop=off --json | grep -o '"tokens".*'
| "tokens":500,"stopped":"length"}

# What is refused.
$ axonn generate model.init=run a generate.prompts=prompts.txt
! axonn: error: prompts on the command line and generate.prompts=prompts.txt: give one of the two
[2]
$ axonn generate model.init=run generate.prompts=none.txt
! axonn: error: generate.prompts=none.txt: No such file or directory
[2]
$ printf '{"prompt": "a"}\n{"text": "b"}\n' >bad.jsonl; axonn generate model.init=run generate.prompts=bad.jsonl
! axonn: error: bad.jsonl:2: no object with a string under "prompt"
[1]
$ axonn generate model.init=run generate.batch=0
! axonn: error: command line: generate.batch=0: the value must be an integer in 1..65536
[2]

# A run's configuration serves here too: its model yields to that of model.init on the line.
$ axonn generate --config run/config.yaml model.init=run "12 squared" generate.tokens=5 generate.temperature=0 -q
| 12 squared is i
$ printf 'model: {preset: gpt2-124m, layers: 7}\ndevice: ref\n' >gpt.yaml; axonn generate --config gpt.yaml model.init=run "12 squared" generate.tokens=5 generate.temperature=0 -q
| 12 squared is i
$ axonn generate --config gpt.yaml model.init=run model.layers=7 x
! axonn: error: model.layers=7, but the checkpoint in model.init has 2: leave the key out
[2]
$ printf 'model: {init: run, layers: 7}\ndevice: ref\n' >both.yaml; axonn generate --config both.yaml x
! axonn: error: model.layers=7, but the checkpoint in model.init has 2: leave the key out
[2]
