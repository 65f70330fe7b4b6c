#!/usr/bin/env python3
"""Makes the tiny Hugging Face models of this folder, and the logits that test_hf_logits.c compares
with.

    pip install torch transformers safetensors
    python3 tests/golden/hf/make_hf.py [folder]
    python3 tests/golden/hf/make_hf.py --check EXPORTED NAME    # an export against NAME's logits

The models are random GPT2LMHeadModel and LlamaForCausalLM of `transformers`, saved by it; where an
older or a bare form of the files is wanted, the script rewrites what was saved. NAME.safetensors
beside a model holds `ids` (sequences, T) I32 and `logits` (sequences, T, V) F32: the model's, loaded
again from the files that are committed, computed in fp32 with eager attention.
"""
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
    "llama_wide": (dict(LLAMA, head_dim=12, eos_token_id=2,
                        rope_parameters=dict(rope_type="linear", rope_theta=100.0, factor=2.5)),
                   torch.float16),
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


def make_bare(folder):
    path = os.path.join(folder, "model.safetensors")
    tensors = {k.removeprefix("transformer."): v for k, v in load_file(path).items()}
    for i in range(LAYERS):
        mask = torch.tril(torch.ones(SEQ, SEQ, dtype=torch.uint8)).view(1, 1, SEQ, SEQ)
        tensors[f"h.{i}.attn.bias"] = mask
        tensors[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4, dtype=torch.float16)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, path, metadata={"format": "pt"})


def logits_of(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(ids).logits.contiguous()


def make(root, name):
    folder = os.path.join(root, name)
    model = make_model(name)
    model.save_pretrained(folder, max_shard_size="80KB" if name == "llama_biases" else "5GB")
    config = os.path.join(folder, "config.json")
    if name == "llama_tied":
        rewrite_config(config, use_old_keys)
    if name == "gpt2_bare":
        make_bare(folder)
    ids = torch.randint(0, VOCAB, (SEQUENCES, SEQ))
    ids[0, 0], ids[1, -1] = VOCAB - 1, 0
    save_file({"ids": ids.to(torch.int32), "logits": logits_of(folder, ids)},
              os.path.join(root, name + ".safetensors"))


def check(root, exported, name):
    golden = load_file(os.path.join(root, name + ".safetensors"))
    got = logits_of(exported, golden["ids"].long())
    worst = (got - golden["logits"]).abs().max().item()
    scale = golden["logits"].abs().max().item()
    print(f"{exported}: largest difference {worst:.2e} of logits up to {scale:.2f}")
    return 0 if got.shape == golden["logits"].shape and worst <= 1e-5 * scale else 1


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    if len(sys.argv) == 4 and sys.argv[1] == "--check":
        return check(here, sys.argv[2], sys.argv[3])
    root = sys.argv[1] if len(sys.argv) > 1 else here
    torch.manual_seed(5)
    for name in MODELS:
        make(root, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
