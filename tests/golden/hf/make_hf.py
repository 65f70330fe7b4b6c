#!/usr/bin/env python3
"""Makes the tiny Hugging Face models of this folder, and the logits that test_hf_logits.c compares
with.

    pip install torch transformers safetensors
    python3 tests/golden/hf/make_hf.py [folder]
    python3 tests/golden/hf/make_hf.py --check FILE             # what exports give in transformers

A line of FILE is `logits EXPORTED NAME`: those of NAME; or `loss EXPORTED TEXT LOSS`: of the bytes
of TEXT, as `axonn eval` scores them.

The models are random GPT2LMHeadModel and LlamaForCausalLM of `transformers`, saved by it; where an
older or a bare form of the files is wanted, the script rewrites what was saved. NAME.safetensors
beside a model holds `ids` (sequences, T) I32 and `logits` (sequences, T, V) F32: the model's, loaded
again from the files that are committed, computed in fp32 with eager attention. Of a large vocabulary
only the logits of `columns` (K) I32 are kept, and `lse` (sequences, T) F64, the logarithm of the sum
of all exponentials.
"""
import functools
import json
import os
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

VOCAB, HIDDEN, LAYERS, SEQ, SEQUENCES = 323, 32, 2, 24, 2  # an odd vocabulary: no grid cuts it

GPT2 = dict(vocab_size=VOCAB, n_positions=SEQ, n_embd=HIDDEN, n_layer=LAYERS, n_head=4,
            bos_token_id=322, eos_token_id=322)
LLAMA = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=64, max_position_embeddings=SEQ,
             rms_norm_eps=1e-5, bos_token_id=1)

MODELS = {
    "gpt2": (GPT2, torch.float32),
    # As the first files of that kind were: no `transformer.` in the names, masks among the tensors.
    "gpt2_bare": (dict(GPT2, n_inner=48, n_head=8, layer_norm_epsilon=1e-6), torch.float16),
    # Every bias, several ends, many files.
    "llama_biases": (dict(LLAMA, attention_bias=True, mlp_bias=True, eos_token_id=[2, 5],
                          rope_parameters=dict(rope_type="default", rope_theta=500000.0)),
                     torch.float32),
    # The keys of older files.
    "llama_tied": (dict(LLAMA, tie_word_embeddings=True, eos_token_id=2,
                        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0,
                                             low_freq_factor=1.0, high_freq_factor=4.0,
                                             original_max_position_embeddings=16)),
                   torch.bfloat16),
    # Heads wider than hidden / heads; no number of key-value heads in the file.
    "llama_wide": (dict(LLAMA, head_dim=12, eos_token_id=2, num_key_value_heads=4,
                        rope_parameters=dict(rope_type="linear", rope_theta=100.0, factor=2.5)),
                   torch.float16),
    # A vocabulary that no grid cuts, and that every kernel pads.
    "llama_odd": (dict(LLAMA, vocab_size=32003, hidden_size=4, head_dim=2, intermediate_size=8,
                       tie_word_embeddings=True, eos_token_id=[2, 32002],
                       rope_parameters=dict(rope_type="linear", rope_theta=100.0, factor=2.0)),
                  torch.bfloat16),
}


def make_model(name):
    keys, dtype = MODELS[name]
    gpt = name.startswith("gpt2")
    config = (transformers.GPT2Config if gpt else transformers.LlamaConfig)(**keys)
    model = (transformers.GPT2LMHeadModel if gpt else transformers.LlamaForCausalLM)(config)
    with torch.no_grad():  # large enough that attention is sharp; norms and biases random too
        for weight_name, weight in model.named_parameters():
            norm = "norm" in weight_name or ".ln_" in weight_name
            start = 1.0 if norm and weight_name.endswith("weight") else 0.0
            weight.copy_(start + 0.25 * torch.randn(weight.shape))
            if weight_name.startswith(("model.norm", "transformer.ln_f")):
                weight *= 0.125  # logits of about 1: differences are absolute and relative alike
    return model.to(dtype)


def rewrite_config(path, change):
    with open(path) as f:
        config = json.load(f)
    change(config)
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")


def use_old_keys(config):
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")


def use_oldest_keys(config):
    use_old_keys(config)
    config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")


def leave_out_kv_heads(config):
    config["num_key_value_heads"] = None


def make_bare(folder):
    path = os.path.join(folder, "model.safetensors")
    tensors = {k.removeprefix("transformer."): v for k, v in load_file(path).items()}
    for i in range(LAYERS):
        mask = torch.tril(torch.ones(SEQ, SEQ, dtype=torch.uint8)).view(1, 1, SEQ, SEQ)
        tensors[f"h.{i}.attn.bias"] = mask
        tensors[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4, dtype=torch.float16)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, path, metadata={"format": "pt"})


@functools.lru_cache(1)
def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def logits_of(folder, ids):
    with torch.no_grad():
        return load(folder)(ids).logits.contiguous()


REWRITES = {"llama_tied": use_old_keys, "llama_odd": use_oldest_keys,
            "llama_wide": leave_out_kv_heads}


def chosen(logits):
    """What is kept of logits: all, or columns spread over the vocabulary with its end."""
    vocab = logits.shape[-1]
    if vocab == VOCAB:
        return {"logits": logits}
    columns = torch.tensor(sorted(set(range(0, vocab, 131)) | set(range(vocab - 16, vocab))))
    return {"logits": logits[..., columns].contiguous(), "columns": columns.to(torch.int32),
            "lse": torch.logsumexp(logits.double(), -1)}


def make(root, name):
    folder = os.path.join(root, name)
    model = make_model(name)
    model.save_pretrained(folder, max_shard_size="80KB" if name == "llama_biases" else "5GB")
    config = os.path.join(folder, "config.json")
    if name in REWRITES:
        rewrite_config(config, REWRITES[name])
    if name == "gpt2_bare":
        make_bare(folder)
    vocab = model.config.vocab_size
    ids = torch.randint(0, vocab, (SEQUENCES, SEQ))
    ids[0, 0], ids[1, -1] = vocab - 1, 0
    save_file({"ids": ids.to(torch.int32), **chosen(logits_of(folder, ids))},
              os.path.join(root, name + ".safetensors"))


def check_logits(root, exported, name):
    golden = load_file(os.path.join(root, name + ".safetensors"))
    got = chosen(logits_of(exported, golden["ids"].long()))
    if any(got[key].shape != golden[key].shape for key in got):
        return f"{exported}: another shape"
    worst = max((got[key] - golden[key]).abs().max().item() for key in got)
    scale = golden["logits"].abs().max().item()
    print(f"{exported}: largest difference {worst:.2e} of logits up to {scale:.2f}")
    return None if worst <= 1e-5 else f"{exported}: that is too much"


def check_loss(exported, text, want):
    """Bytes and an end of document (256), in windows of SEQ targets."""
    with open(text, "rb") as f:
        ids = torch.tensor(list(f.read()) + [256])
    total = 0.0
    for at in range(0, len(ids) - 1, SEQ):
        window = ids[at:at + SEQ + 1]
        logits = logits_of(exported, window[None, :-1])[0].double()
        total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
    loss = total / (len(ids) - 1)
    print(f"{exported}: loss {loss:.8f}, axonn {float(want):.8f}")
    return None if abs(loss - float(want)) <= 1e-5 else f"{exported}: these differ"


def check(root, path):
    bad = []
    with open(path) as f:
        for kind, *rest in map(str.split, f):
            bad.append(check_logits(root, *rest) if kind == "logits" else check_loss(*rest))
    print("\n".join(filter(None, bad)))
    return any(bad)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        return check(here, sys.argv[2])
    root = sys.argv[1] if len(sys.argv) > 1 else here
    torch.manual_seed(5)
    for name in MODELS:
        make(root, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
