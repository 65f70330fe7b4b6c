# What the program can do, and where to read more.
$ axonn help
| axonn 0.1.0: train GPT and Llama models on a grid x * y * z * data
|
| axonn VERB [--config FILE.yaml] [key=value ...] [--ranks N] [--grid G] [--json] [-q|-v]
|
|     train      pretrain or continue training a model on text
|     generate   continue a prompt with a trained model
|     eval       token-weighted loss and perplexity of a model on data
|     convert    a Hugging Face directory to a checkpoint, a checkpoint or run to such a directory
|     prepare    text and JSON lines to token files, with document borders
|     checkpoint list, inspect, verify the checkpoints of a run, or one
|     data       data show: the samples and documents that a training step reads
|     tokenizer  train a byte-level BPE; encode, decode, inspect
|     selftest   prove on this machine that a model and grid give the serial numbers
|     info       build, devices, instruction sets, libraries, ranks and how they were found
|     help       this list, the page of a verb, or all keys
|
| axonn help VERB shows examples, axonn help keys every key, axonn help KEY one.
| --config FILE: keys from YAML; --json: one object as the answer; -q, -v: say less, more.
| Exit status: 0 done, 1 failed, 2 wrong use, 75 stopped early after saving: start it
| again with train.resume=auto; 130 the same, by Ctrl-C.
$ axonn --version
| axonn 0.1.0
$ axonn help train
| axonn train: pretrain or continue training a model on text
|
|     axonn train --config examples/quickstart.yaml
|     axonn train data.train=book.txt train.steps=200 train.out=out/book --ranks 4 --grid x=2,z=2
|     axonn train train.out=out/book train.resume=auto train.steps=400
|     axonn train data.train=a.jsonl@0.7,b.jsonl@0.3 train.epochs=2 model.init=models/llama
|     mpirun -n 4 axonn train --config examples/quickstart.yaml
|
| Keys are key=value or --key value, on the line or in a YAML file (--config);
| the line wins. axonn help keys lists them.
|
| It reads these keys (axonn help KEY tells of one):
|     model.preset model.init device grid ranks model.arch model.layers model.hidden model.heads
|     model.kv_heads model.head_dim model.ffn model.vocab model.seq model.tied model.norm_eps
|     model.rope_theta model.init_std model.attention_bias model.mlp_bias model.rope_scaling
|     model.rope_factor model.rope_low model.rope_high model.rope_original model.eos data.train
|     data.valid data.tokenizer data.text_key data.prompt_key data.completion_key data.bos
|     data.eod data.literals data.packing data.document_mask data.valid_fraction data.seed
|     train.steps train.epochs train.batch train.micro_batch train.lr train.min_lr train.warmup
|     train.schedule train.wsd_decay train.weight_decay train.beta1 train.beta2 train.eps
|     train.clip train.seed train.precision train.recompute train.activations train.overlap
|     train.keep_gathered train.nonfinite train.threads train.tune train.tune_file
|     train.log_every train.eval_every train.eval_batches train.save_every train.save_async
|     train.trace train.keep train.out train.resume train.stop_before train.wall_time
|     comm.gradients comm.activations
$ axonn train --help
| axonn train: pretrain or continue training a model on text
|
|     axonn train --config examples/quickstart.yaml
|     axonn train data.train=book.txt train.steps=200 train.out=out/book --ranks 4 --grid x=2,z=2
|     axonn train train.out=out/book train.resume=auto train.steps=400
|     axonn train data.train=a.jsonl@0.7,b.jsonl@0.3 train.epochs=2 model.init=models/llama
|     mpirun -n 4 axonn train --config examples/quickstart.yaml
|
| Keys are key=value or --key value, on the line or in a YAML file (--config);
| the line wins. axonn help keys lists them.
|
| It reads these keys (axonn help KEY tells of one):
|     model.preset model.init device grid ranks model.arch model.layers model.hidden model.heads
|     model.kv_heads model.head_dim model.ffn model.vocab model.seq model.tied model.norm_eps
|     model.rope_theta model.init_std model.attention_bias model.mlp_bias model.rope_scaling
|     model.rope_factor model.rope_low model.rope_high model.rope_original model.eos data.train
|     data.valid data.tokenizer data.text_key data.prompt_key data.completion_key data.bos
|     data.eod data.literals data.packing data.document_mask data.valid_fraction data.seed
|     train.steps train.epochs train.batch train.micro_batch train.lr train.min_lr train.warmup
|     train.schedule train.wsd_decay train.weight_decay train.beta1 train.beta2 train.eps
|     train.clip train.seed train.precision train.recompute train.activations train.overlap
|     train.keep_gathered train.nonfinite train.threads train.tune train.tune_file
|     train.log_every train.eval_every train.eval_batches train.save_every train.save_async
|     train.trace train.keep train.out train.resume train.stop_before train.wall_time
|     comm.gradients comm.activations
$ axonn help keys generate
|   generate.tokens=200
|       tokens to generate (integer 0..)
|   generate.temperature=0.8
|       divides the logits; 0: always the likeliest token (number 0..)
|   generate.top_k=0
|       draw from the k likeliest tokens; 0: off (integer 0..)
|   generate.top_p=1
|       draw from the likeliest tokens that hold this probability; 1: off (number 0..1)
|   generate.seed=1
|       seed of the draws (integer 0..)
|   generate.prompt=""
|       text to continue, where the command line has none; empty: begin a document (text)
|   generate.prompts=""
|       file of prompts: one a line, or *.jsonl, objects with a "prompt" (text)
|   generate.batch=8
|       prompts at work at one time, over all ranks (integer 1..65536)
|   generate.stop=on
|       end a text at the end-of-document id or one of model.eos; off: go on (on|off)
$ axonn help nothing
! axonn: error: no verb 'nothing' (axonn help lists all)
[2]
# Without a verb the list is shown, but nothing was done.
$ axonn >/dev/null
! axonn: error: no verb; axonn help lists them
[2]
# Each verb of the list has a page.
$ for v in $(axonn help | awk '/^    [a-z]/ { print $1 }'); do axonn help $v | head -1; done
| axonn train: pretrain or continue training a model on text
| axonn generate: continue a prompt with a trained model
| axonn eval: token-weighted loss and perplexity of a model on data
| axonn convert: a Hugging Face directory to a checkpoint, a checkpoint or run to such a directory
| axonn prepare: text and JSON lines to token files, with document borders
| axonn checkpoint: list, inspect, verify the checkpoints of a run, or one
| axonn data: data show: the samples and documents that a training step reads
| axonn tokenizer: train a byte-level BPE; encode, decode, inspect
| axonn selftest: prove on this machine that a model and grid give the serial numbers
| axonn info: build, devices, instruction sets, libraries, ranks and how they were found
| axonn help: this list, the page of a verb, or all keys
# Every key of the table of options is taken: each is set to its own default.
$ axonn help keys | grep -c '^  [a-z]' | awk '{ exit !($1 > 40) }'
$ axonn help keys | sed -n 's/^  \([a-z].*\)="*\([^"]*\)"*$/\1 \2/p' >keys
$ while read -r key value; do axonn info "$key=$value" >/dev/null 2>said || head -1 said | grep -v 'info does not read'; done <keys; true
