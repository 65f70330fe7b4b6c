#!/usr/bin/env python3
"""Makes the golden files that test_models.c compares with: gpt.golden, llama.golden,
llama_tied.golden and llama_documents.golden, beside this script.

    pip install torch transformers numpy
    python3 tests/golden/make_models.py [folder]

Only a change of the reference needs this script; the tests read the committed files and know no
Python. Nothing here is taken from the C sources: the models are the GPT2LMHeadModel and
LlamaForCausalLM of `transformers` (eager attention) in float64, gradients are autograd's, the
optimizer and the clipping are torch's, and the random numbers are a second implementation, in
numpy, of the counter-based generator (Philox 4x32-10, Box-Muller, streams named by FNV-1a).

Two places of `transformers` compute in float32 whatever the model's dtype is: the rotary angles,
and the float32 islands inside RMSNorm and the softmax. `widen` lifts those to float64; that this
changes nothing but the rounding is checked against the untouched model in float32.

A golden file is a text header, one line an entry, and then the tensors' bytes:

    axonn golden 1
    number NAME VALUE
    tensor NAME f32|f64|i32 ROWS COLS
    end
    ... the tensors in the order of their lines: packed rows, little-endian, no padding ...

Numbers: the model's shape, `batch`, `steps`, `seed`, `loss` (of batch 0), and the optimizer's.
Tensors, where P is a parameter's logical name as checkpoints use it:

    weight.P  f32  initial weights of every run below (random, norms and biases too); all arithmetic
                   is float64 on these values, so that an fp32 run starts from exactly the same
    init.P    f64  the first and last four values that the seed alone gives this parameter
    grad.P    f64  gradient of the mean loss over the counting targets of batch 0
    ids       i32  ((steps + 1) * batch, T): row s * batch + b is sequence b of batch s
    targets   i32  the same shape; -1: does not count
    positions i32  the same shape, where rows hold several documents: of each token in its own. The
                   network then gets them as position_ids, and a mask that ends at the borders
    logits    f64  (batch * T, V) of batch 0
    lr, curve.loss, curve.norm  f64 (1, steps): training on batches 1 .. steps, norm before clipping
"""
import math
import os
import sys

import numpy as np
import torch
import transformers
from torch.func import functional_call
from transformers.models.llama import modeling_llama

SEED, BATCH, STEPS, LAYERS, HIDDEN, VOCAB, SEQ = 11, 4, 20, 2, 32, 101, 16
INIT_STD, EPS = 0.2, 1e-5
LR, MIN_LR, WARMUP = 1e-3, 1e-4, 4
BETAS, ADAM_EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 0.5

MODELS = {
    "gpt": dict(kind="gpt", heads=4, kv_heads=4, head_dim=8, ffn=128, tied=1),
    "llama": dict(kind="llama", heads=8, kv_heads=2, head_dim=4, ffn=64, tied=0),
    "llama_tied": dict(kind="llama", heads=8, kv_heads=2, head_dim=4, ffn=64, tied=1),
    "llama_documents": dict(kind="llama", heads=8, kv_heads=2, head_dim=4, ffn=64, tied=1,
                            documents=True),
}


# ---- random numbers ------------------------------------------------------------------------------

def stream(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 % 2**64
    return h


def philox(seed, stream_id, index):
    """Four 32-bit words of every index, as an array (4, n) of uint64."""
    low, word = np.uint64(0xFFFFFFFF), np.uint64(32)
    index = np.asarray(index, dtype=np.uint64)
    s = np.full_like(index, stream_id)
    c = [index & low, index >> word, s & low, s >> word]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [p1 >> word ^ c[1] ^ np.uint64(k[0]), p1 & low,
             p0 >> word ^ c[3] ^ np.uint64(k[1]), p0 & low]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return np.stack(c)


def unit(low, high):
    return ((high << np.uint64(32) | low) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(name, count, seed=SEED):
    w = philox(seed, stream(name), np.arange(count))
    return np.sqrt(-2 * np.log(1 - unit(w[0], w[1]))) * np.cos(2 * math.pi * unit(w[2], w[3]))


def integers(name, count, below):
    w = philox(SEED, stream(name), np.arange(count))
    return ((w[1] << np.uint64(32) | w[0]) % np.uint64(below)).astype(np.int32)


# ---- parameters ----------------------------------------------------------------------------------

def shapes(m):
    """Logical name -> (shape, initial standard deviation, initial value)."""
    gpt, h, f = m["kind"] == "gpt", HIDDEN, m["ffn"]
    q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    out = INIT_STD / math.sqrt(2 * LAYERS)
    p = {"embed.weight": ((VOCAB, h), INIT_STD, 0)}
    if gpt:
        p["positions.weight"] = ((SEQ, h), INIT_STD, 0)

    def norm(name):
        p[name + ".weight"] = ((h,), 0, 1)
        if gpt:
            p[name + ".bias"] = ((h,), 0, 0)

    def linear(name, rows, cols, std):
        p[name + ".weight"] = ((rows, cols), std, 0)
        if gpt:
            p[name + ".bias"] = ((rows,), 0, 0)

    for i in range(LAYERS):
        b = f"blk.{i}."
        norm(b + "attn_norm")
        linear(b + "attn.q", q, h, INIT_STD)
        linear(b + "attn.k", kv, h, INIT_STD)
        linear(b + "attn.v", kv, h, INIT_STD)
        linear(b + "attn.o", h, q, out)
        norm(b + "mlp_norm")
        if not gpt:
            linear(b + "mlp.gate", f, h, INIT_STD)
        linear(b + "mlp.up", f, h, INIT_STD)
        linear(b + "mlp.down", h, f, out)
    norm("final_norm")
    if not m["tied"]:
        p["head.weight"] = ((VOCAB, h), INIT_STD, 0)
    return p


def initial(name, shape, std, value):
    count = math.prod(shape)
    return std * normal(name, count) if std else np.full(count, float(value))


def weights(m):
    """float64 values that fp32 holds exactly. Norms and biases get random values as well."""
    w = {}
    for name, (shape, std, value) in shapes(m).items():
        v = initial(name, shape, std, value)
        if not std:
            v = v + INIT_STD * normal(name, v.size)
        w[name] = torch.tensor(v.astype(np.float32).reshape(shape).astype(np.float64))
    return w


# ---- the models of transformers ------------------------------------------------------------------

def gpt2_state(p):
    """Our parameters as GPT2LMHeadModel names and lays them out (matrices in x out)."""
    s = {"transformer.wte.weight": p["embed.weight"], "lm_head.weight": p["embed.weight"],
         "transformer.wpe.weight": p["positions.weight"],
         "transformer.ln_f.weight": p["final_norm.weight"],
         "transformer.ln_f.bias": p["final_norm.bias"]}
    for i in range(LAYERS):
        b, t = f"blk.{i}.", f"transformer.h.{i}."
        for kind in ("weight", "bias"):
            turn = (lambda x: x.T) if kind == "weight" else (lambda x: x)
            s[t + "ln_1." + kind] = p[b + "attn_norm." + kind]
            s[t + "ln_2." + kind] = p[b + "mlp_norm." + kind]
            qkv = torch.cat([p[b + f"attn.{n}.{kind}"] for n in "qkv"])
            s[t + "attn.c_attn." + kind] = turn(qkv)
            s[t + "attn.c_proj." + kind] = turn(p[b + "attn.o." + kind])
            s[t + "mlp.c_fc." + kind] = turn(p[b + "mlp.up." + kind])
            s[t + "mlp.c_proj." + kind] = turn(p[b + "mlp.down." + kind])
    return s


def llama_state(p):
    s = {"model.embed_tokens.weight": p["embed.weight"],
         "model.norm.weight": p["final_norm.weight"],
         "lm_head.weight": p.get("head.weight", p["embed.weight"])}
    for i in range(LAYERS):
        b, t = f"blk.{i}.", f"model.layers.{i}."
        s[t + "input_layernorm.weight"] = p[b + "attn_norm.weight"]
        s[t + "post_attention_layernorm.weight"] = p[b + "mlp_norm.weight"]
        for n in "qkvo":
            s[t + f"self_attn.{n}_proj.weight"] = p[b + f"attn.{n}.weight"]
        for n in ("gate", "up", "down"):
            s[t + f"mlp.{n}_proj.weight"] = p[b + f"mlp.{n}.weight"]
    return s


def network(m):
    if m["kind"] == "gpt":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=VOCAB, n_positions=SEQ, n_embd=HIDDEN, n_layer=LAYERS, n_head=m["heads"],
            n_inner=m["ffn"], activation_function="gelu_new", layer_norm_epsilon=EPS,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0,
            tie_word_embeddings=True, use_cache=False, attn_implementation="eager")), gpt2_state
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=m["ffn"],
        num_hidden_layers=LAYERS, num_attention_heads=m["heads"],
        num_key_value_heads=m["kv_heads"], head_dim=m["head_dim"], hidden_act="silu",
        max_position_embeddings=SEQ, rms_norm_eps=EPS, bos_token_id=0, eos_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=bool(m["tied"]), use_cache=False,
        attn_implementation="eager")), llama_state


class WideTorch:
    """torch, but its float32 is float64: for a module that casts to float32 by name."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float32", "float") else getattr(torch, name)


class WideRotary(torch.nn.Module):
    """LlamaRotaryEmbedding in float64."""

    def __init__(self, head_dim):
        super().__init__()
        self.inv_freq = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)

    def forward(self, x, position_ids):
        freqs = position_ids[..., None].double() * self.inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


def widen(net, m):
    if m["kind"] == "llama":
        net.model.rotary_emb = WideRotary(m["head_dim"])
        modeling_llama.torch = WideTorch()
    return net.double()


def logits_of(net, state, p, ids, positions):
    more = {}
    if positions is not None:
        at = torch.tensor(positions, dtype=torch.long)
        row, col = torch.arange(SEQ)[:, None], torch.arange(SEQ)[None, :]
        seen = (col <= row) & (col >= row - at[:, :, None])
        mask = torch.zeros(seen.shape, dtype=next(iter(p.values())).dtype)
        more = dict(position_ids=at, attention_mask=mask.masked_fill(~seen, -math.inf)[:, None])
    return functional_call(net, state(p), (torch.tensor(ids, dtype=torch.long),), more).logits


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCAB), torch.tensor(targets, dtype=torch.long).reshape(-1),
        ignore_index=-1)


# ---- data, training, output ----------------------------------------------------------------------

def batches(name):
    """Next-token pairs; about one target in six does not count."""
    n = (STEPS + 1) * BATCH
    tokens = integers(name + " tokens", n * (SEQ + 1), VOCAB).reshape(n, SEQ + 1)
    ids, targets = tokens[:, :-1], tokens[:, 1:].copy()
    targets[integers(name + " ignored", n * SEQ, 6).reshape(n, SEQ) == 0] = -1
    return ids, targets


def cuts(name):
    """Where each token stands in its document; about one in five begins one."""
    n = (STEPS + 1) * BATCH
    begins = integers(name + " documents", n * SEQ, 5).reshape(n, SEQ) == 0
    positions = np.zeros((n, SEQ), dtype=np.int32)
    for k in range(1, SEQ):
        positions[:, k] = np.where(begins[:, k], 0, positions[:, k - 1] + 1)
    return positions


def rate(step):
    if step <= WARMUP:
        return LR * step / WARMUP
    t = (step - WARMUP) / (STEPS - WARMUP)
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * t))


def train(net, state, start, ids, targets, positions):
    p = {n: w.clone().requires_grad_() for n, w in start.items()}
    groups = [dict(params=[w for w in p.values() if w.dim() == 2], weight_decay=DECAY),
              dict(params=[w for w in p.values() if w.dim() == 1], weight_decay=0.0)]
    optim = torch.optim.AdamW(groups, lr=0.0, betas=BETAS, eps=ADAM_EPS, foreach=False)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        at = None if positions is None else positions[rows]
        loss = loss_of(logits_of(net, state, p, ids[rows], at), targets[rows])
        optim.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), CLIP).item())
        losses.append(loss.item())
        for g in optim.param_groups:
            g["lr"] = rate(step)
        optim.step()
    return losses, norms


def write(path, numbers, tensors):
    kinds = {"float32": "f32", "float64": "f64", "int32": "i32"}
    with open(path, "wb") as f:
        f.write(b"axonn golden 1\n")
        for name, value in numbers.items():
            f.write(f"number {name} {value!r}\n".encode())
        for name, t in tensors.items():
            rows, cols = t.shape if t.ndim == 2 else (1, t.size)
            f.write(f"tensor {name} {kinds[t.dtype.name]} {rows} {cols}\n".encode())
        f.write(b"end\n")
        for t in tensors.values():
            f.write(np.ascontiguousarray(t, dtype=t.dtype.newbyteorder("<")).tobytes())


def make(name, m, folder):
    torch.manual_seed(0)  # the network's own weights are never used
    start, (ids, targets) = weights(m), batches(name)
    first = slice(0, BATCH)
    positions = cuts(name) if m.get("documents") else None
    at = None if positions is None else positions[first]

    modeling_llama.torch = torch
    net, state = network(m)
    narrow = {n: w.float() for n, w in start.items()}
    rough = loss_of(logits_of(net.float(), state, narrow, ids[first], at).double(),
                    targets[first])
    net = widen(net, m)

    p = {n: w.clone().requires_grad_() for n, w in start.items()}
    logits = logits_of(net, state, p, ids[first], at)
    assert logits.dtype == torch.float64
    loss = loss_of(logits, targets[first])
    loss.backward()
    assert abs(loss.item() - rough.item()) < 2e-6 * loss.item(), "widen changed the meaning"
    losses, norms = train(net, state, start, ids, targets, positions)

    numbers = dict(gpt=int(m["kind"] == "gpt"), layers=LAYERS, hidden=HIDDEN, heads=m["heads"],
                   kv_heads=m["kv_heads"], head_dim=m["head_dim"], ffn=m["ffn"], vocab=VOCAB,
                   seq=SEQ, tied=m["tied"], norm_eps=EPS, rope_theta=10000.0, init_std=INIT_STD,
                   seed=SEED, batch=BATCH, steps=STEPS, loss=loss.item(), peak_lr=LR,
                   min_lr=MIN_LR, warmup=WARMUP, beta1=BETAS[0], beta2=BETAS[1], eps=ADAM_EPS,
                   weight_decay=DECAY, clip=CLIP)
    tensors = {"ids": ids, "targets": targets,
               "logits": logits.detach().numpy().reshape(-1, VOCAB),
               "lr": np.array([rate(s) for s in range(1, STEPS + 1)]),
               "curve.loss": np.array(losses), "curve.norm": np.array(norms)}
    if positions is not None:
        tensors["positions"] = positions
    for n, (shape, std, value) in shapes(m).items():
        v = initial(n, shape, std, value)
        tensors["init." + n] = np.concatenate([v[:4], v[-4:]])
        tensors["weight." + n] = start[n].numpy().astype(np.float32)
        tensors["grad." + n] = p[n].grad.numpy()
    path = os.path.join(folder, name + ".golden")
    write(path, numbers, tensors)
    print(f"{path}: {os.path.getsize(path)} bytes, loss {loss.item():.6f} "
          f"(fp32 model {rough.item():.6f}), after {STEPS} steps {losses[-1]:.6f}, "
          f"norms {norms[0]:.3f} .. {norms[-1]:.3f}")


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for model_name, model in MODELS.items():
        make(model_name, model, target)
