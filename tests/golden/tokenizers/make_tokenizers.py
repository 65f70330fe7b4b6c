#!/usr/bin/env python3
"""Makes the tokenizers, texts and ids of the tests beside it, with the Hugging Face library.

    python3 tests/golden/tokenizers/make_tokenizers.py [--train]       (tokenizers 0.23)

The library's trainer breaks ties by chance: tokenizers that are there are kept unless --train asks
for new ones.

gpt2.json, llama2.json, llama3.json  small tokenizers of those kinds, trained on SENTENCES.
hostile.jsonl    a text a line: the hex digits of its bytes, and of each tokenizer the ids with the
                 literals of special tokens taken as text ("text") and, where they differ, as tokens
                 ("tokens"), and what decoding "text" gives. Bytes that are not UTF-8 never reach
                 the library: they have the ids of bytes, the run behind them gets no "▁" in front,
                 and there is no "decoded".
pipelines.jsonl  a tokenizer a line: the parts that replace those of pipeline.json, and texts with
                 ids and decoded text.
long_sums.txt    of each tokenizer, the number and the 64-bit FNV-1a hash of the ids of long_word().
trained.json     a text, and the merges that training on it gives.
"""
import copy
import json
import pathlib
import random
import sys

from tokenizers import (Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, trainers)

here = pathlib.Path(__file__).parent

SENTENCES = """The quick brown fox jumps over the lazy dog, doesn't it? They've said we'll see, I'm sure you're right.
In the beginning the earth was without form, and void; and darkness was upon the face of the deep.
Numbers: 1, 22, 333, 4444, 55555 and 3.14159; the year 1984, 100,000 people, 50% of $1,299.99.
int main(void)\n{\n    for (int i = 0; i < 10; i++)\n        printf("%d\\n", i);\n\treturn 0;\n}\n
Der schnelle braune Fuchs springt über den faulen Hund. Größe, Äpfel, Öl und Übermut.
Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë au delà des îles.
Съешь же ещё этих мягких французских булок, да выпей чаю.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.
いろはにほへと ちりぬるを 我が世誰ぞ 常ならむ 有為の奥山 今日越えて
天地玄黃 宇宙洪荒 日月盈昃 辰宿列張
다람쥐 헌 쳇바퀴에 타고파.
नमस्ते दुनिया, यह एक वाक्य है।
صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت
Hello   world,  with   spaces\tand\ttabs\r\nand lines\n\n\nbetween them.\x20\x20\x20
\U0001f600\U0001f680 emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 and flags \U0001f1e9\U0001f1ea!""".split("\n")

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_trainer(size, specials):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False,
                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES, byte_trainer(700, ["<|endoftext|>"]))
    return t


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(SENTENCES, byte_trainer(800, []))
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|end|>", "<|end|>x"])
    return t


def llama2():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    specials = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    t.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=760, special_tokens=specials, limit_alphabet=120, show_progress=False))
    j = json.loads(t.to_str())
    j["pre_tokenizer"] = None
    j["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    j["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
    j["added_tokens"] = [dict(a, normalized=False) for a in j["added_tokens"] if a["id"] < 3]
    return Tokenizer.from_str(json.dumps(j))


def hostile():
    rng = random.Random(3)
    specials = ["<|endoftext|>", "<|end_of_text|>", "<|begin_of_text|>", "<|end|>", "<|end|>x", "<s>",
                "</s>", "<unk>", "<0x0A>"]
    yield from ["", " ", "  ", "\n", "\r\n", "\r", "\0", "a\0b", "\ufeff", "\ufeffBOM", "a", "é", "'s", "'S", "'ſ",
                "don't DON'T DON’T", "a'll'd've", "x" * 300, " " * 130, "\n" * 99, "ab" * 120,
                " a" * 70, "\r\n" * 40, "a  b   c    d", "tab\t\tx", "end  ", "\u3000\u3000x", "\u00a0x",
                "\u0085x\u0085\u0085", "\u180ex \u180e", "\u200b\u200b", "\u2028\u2029x", "1234567890", "١٢٣٤٥",
                "Ⅻ²³½", "e\u0301e\u0301", "é" * 50, "a" + "\u0300" * 40, "\u1e9b\u0323", "한글", "\u1112\u1161\u11ab",
                "\u00c5\u212b\u0041\u030a", "ﬁﬂﬃ", "▁▁a▁b", "▁", " ▁ ", "<0x0A>", "<0x41>A", "ĠaĊ", "\U0001d173\U0001d165",
                "👨‍👩‍👧‍👦👍🏽🇩🇪", "z̷̢̛͎͠a̸͔͝l̶̰͌g̴̞̈o̵̮̒", "\u202eabc\u202c", "日本語テキスト", "ไทยไม่มีเว้นวรรค",
                "\U00010ffff"[:1] + "\U0010ffff\ufffd\ufffe\uffff", "\ue000\uf8ff\U000f0000\U00100000"]
    yield from SENTENCES
    for s in specials:
        yield from [s, s + s + s, "a" + s, s + "b", f" {s} ", f"x {s}\n{s} y", s[:-1], s[1:], s[:4] + s]
    codes = list(range(1, 0xd800, 211)) + list(range(0xe000, 0x110000, 1499))
    for i in range(0, len(codes), 48):
        yield "".join(map(chr, codes[i:i + 48]))
        yield " ".join(map(chr, codes[i:i + 48]))
    new = [0x1c89, 0xa7cb, 0xa7dc, 0x105c0, 0x10d4a, 0x10d40, 0x116d0, 0x1e5f1, 0x31350, 0x2ebf0, 0x897]
    yield "".join("a" + chr(c) + "1 " + chr(c) for c in new)
    marks = [0x300, 0x301, 0x323, 0x327, 0x338, 0x345, 0x5b0, 0x64b, 0x93c, 0x3099, 0x1d165, 0x20dd]
    for _ in range(12):
        yield "".join(rng.choice("aeoçが한ا") + "".join(chr(rng.choice(marks)) for _ in range(rng.randrange(5)))
                      for _ in range(8))
    for _ in range(40):
        parts = [" ", "  ", "\n", "\r\n", "\t", "a", "B", "the", "'s", "'", "1", "23", "é", "が", "한", "🙂", "!", "...",
                 "\u00a0", "<", "|", ">", "\u0301"] + specials
        yield "".join(rng.choice(parts) for _ in range(24))


def broken():
    yield from [b"\xff", b"a\xffb", b"\xc3", b"\xc3\xa9\xc3", b"\xe2\x82", b"\xe2\x82\xac\xe2\x82", b"\x80\x81abc",
                b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xf0\x9f\x98", b"the\xfe\xff the",
                b"<|endoftext|>\xff</s>", b"\xff<|end_of_text|>", bytes(range(256)), b" \xff \xfe "]


def runs(data):
    """Valid runs as str, the bytes between as bytes."""
    while data:
        try:
            yield data.decode()
            return
        except UnicodeDecodeError as error:
            if error.start:
                yield data[:error.start].decode()
            end = error.start + 1
            while end < len(data) and not starts_character(data[end:]):
                end += 1
            yield data[error.start:end]
            data = data[end:]


def starts_character(data):
    for n in range(1, 5):
        try:
            return bool(data[:n].decode())
        except UnicodeDecodeError:
            pass
    return False


def byte_characters():
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(plain))
    return table


def without_prepend(t):
    """The same tokenizer for a run that continues a text."""
    j = json.loads(t.to_str())
    if j["normalizer"]:
        j["normalizer"] = j["normalizer"]["normalizers"][1]
    inner = Tokenizer.from_str(json.dumps(j))
    inner.encode_special_tokens = t.encode_special_tokens
    return inner


def encode(t, data):
    ids, table = [], byte_characters()
    for i, run in enumerate(runs(data)):
        if isinstance(run, str):
            ids += (without_prepend(t) if i else t).encode(run, add_special_tokens=False).ids
        elif t.token_to_id("<0x0A>") is not None:
            ids += [t.token_to_id("<0x%02X>" % b) for b in run]
        else:
            ids += [token.id for token in t.model.tokenize("".join(table[b] for b in run))]
    return ids


def cases(t, data):
    t.encode_special_tokens = True
    as_text = encode(t, data)
    t.encode_special_tokens = False
    as_tokens = encode(t, data)
    out = {"text": as_text}
    if len(list(runs(data))) == 1 and isinstance(next(runs(data)), str):
        out["decoded"] = t.decode(as_text, skip_special_tokens=True)
    if as_tokens != as_text:
        out["tokens"] = as_tokens
    return out


def write_hostile(kinds):
    with open(here / "hostile.jsonl", "w") as f:
        for text in list(hostile()) + list(broken()):
            data = text.encode() if isinstance(text, str) else text
            row = {"hex": data.hex()}
            row.update({name: cases(t, data) for name, t in kinds.items()})
            f.write(json.dumps(row, separators=(",", ":")) + "\n")


# ---- pipelines: one small model, every component

TEXTS = ["Hello,  world! 12 34a\n", " leading", "trailing ", "", " ", "aXbXXc", "XX", "a1b22c333", "ab-cd--ef-",
         "-x-", "▁a b▁▁c", "fi ﬁ é e\u0301 Å ½ 한 가\u11a8", "tHE the<T>the <T>", "<S> a<S>b <S><S>", "<L>  <R>  x <W>y <W> _<W>",
         "Été<N>ETE", "a  <L>", "<R>   b", "ſ\u212a", "日本 語12", "\u3000x\u3000", "x\n\ny\r\nz", "--", "- -", "1-2-3"]


def pipelines():
    none = {"normalizer": None, "pre_tokenizer": None}
    for form in "NFC", "NFD", "NFKC", "NFKD":
        yield {**none, "normalizer": {"type": form}}
    for pattern, content in ({"String": "a"}, "bb"), ({"Regex": "[0-9]+"}, "#"), ({"Regex": "x*"}, "-"), ({"String": "XX"}, ""):
        yield {**none, "normalizer": {"type": "Replace", "pattern": pattern, "content": content}}
    yield {**none, "normalizer": {"type": "Prepend", "prepend": "ab"}}
    yield {**none, "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "NFKD"}, {"type": "Replace", "pattern": {"Regex": r"\p{M}"}, "content": ""},
        {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": " "}]}]}}
    for behavior in "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous":
        for invert in False, True:
            for pattern in {"String": "-"}, {"String": "X"}, {"Regex": r"\s"}, {"Regex": r"\d+|-"}, {"Regex": "x*"}, {"Regex": r"^.|\w$"}:
                yield {**none, "pre_tokenizer": {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}}
    for individual in False, True:
        yield {**none, "pre_tokenizer": {"type": "Digits", "individual_digits": individual}}
    for scheme in "always", "first", "never":
        for split in False, True:
            yield {**none, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split},
                   "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}}
    for prefix in False, True:
        for regex in False, True:
            yield {**none, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex},
                   "model": {"byte_fallback": False},
                   "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}
    yield {**none, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": r"\s+"}, "behavior": "Removed", "invert": False},
        {"type": "Digits", "individual_digits": True},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]}}
    yield {**none, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": False}, {"type": "Split", "pattern": {"Regex": r"[^\S\n]|\W"}, "behavior": "MergedWithNext", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]},
           "model": {"byte_fallback": False}}
    plain = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    for chain in [plain], [{"type": "ByteFallback"}], [plain, {"type": "Strip", "content": "h", "start": 1, "stop": 0}], \
            [plain, {"type": "Strip", "content": "l", "start": 0, "stop": 1}], \
            [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": "e", "start": 2, "stop": 0}]:
        yield {**none, "decoder": {"type": "Sequence", "decoders": chain}}
    yield {**none, "decoder": None}
    yield {**none, "model": {"byte_fallback": False}}
    yield {**none, "model": {"byte_fallback": False, "fuse_unk": False}}
    yield {**none, "model": {"byte_fallback": False, "unk_token": None}}
    yield {**none, "model": {"ignore_merges": True}}


def pipeline_base():
    letters = sorted(set("abcdefghijklmnopqrstuvwxyzXT▁ -,.!0123456789<>_SĠĊé가")) + ["a\u0301"]
    vocab = {"<unk>": 0}
    for token in ["<0x%02X>" % i for i in range(256)] + letters:
        vocab.setdefault(token, len(vocab))
    merges = []
    for pair in ["h e", "l l", "he ll", "hell o", "t he", "▁ a", "a b", "ab c", "- -", "1 2", "▁ ▁", "X X", "Ġ a",
                 "b b", "2 2", "▁ the", "bb b", "t h", "th e", "Ġ the"]:
        left, right = pair.split()
        for token in left, right, left + right:
            vocab.setdefault(token, len(vocab))
        merges.append([left, right])
    vocab["whole word"] = len(vocab)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    added = [{"content": "<S>", "special": True}, {"content": "<T>"}, {"content": "<L>", "lstrip": True},
             {"content": "<R>", "rstrip": True}, {"content": "<W>", "single_word": True}, {"content": "té<N>", "normalized": True}]
    for token in added:
        token["id"] = vocab.setdefault(token["content"], len(vocab))
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{**flags, **token} for token in added], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": vocab, "merges": merges}}


def write_pipelines():
    base = pipeline_base()
    (here / "pipeline.json").write_text(json.dumps(base, ensure_ascii=False) + "\n")
    with open(here / "pipelines.jsonl", "w") as f:
        for parts in pipelines():
            whole = copy.deepcopy(base)
            for key, value in parts.items():
                if key == "model":
                    whole["model"].update(value)
                else:
                    whole[key] = value
            t = Tokenizer.from_str(json.dumps(whole))
            rows = []
            for text in TEXTS:
                ids = t.encode(text, add_special_tokens=False).ids
                rows.append([text, ids, t.decode(ids, skip_special_tokens=False)])
            f.write(json.dumps({"parts": parts, "cases": rows}, separators=(",", ":")) + "\n")


def write_trained():
    """Merges of the library's trainer; training reads the text as one document."""
    text = "\n".join(SENTENCES * 3)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=600, min_frequency=2, special_tokens=["<|endoftext|>"],
                                  show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator([text], trainer)
    merges = json.loads(t.to_str())["model"]["merges"]
    (here / "trained.json").write_text(json.dumps({"text": text, "merges": merges}) + "\n")


def long_word():
    """40000 letters without a blank, as the test makes them, too."""
    state, letters = 1, []
    for _ in range(40000):
        state = (state * 1103515245 + 12345) % 2**31
        letters.append("aehtnios"[state >> 16 & 7])
    return "".join(letters)


def write_long(kinds):
    with open(here / "long_sums.txt", "w") as f:
        for name, t in kinds.items():
            ids, h = t.encode(long_word(), add_special_tokens=False).ids, 0xcbf29ce484222325
            for byte in b"".join(i.to_bytes(4, "little") for i in ids):
                h = (h ^ byte) * 0x100000001b3 % 2**64
            f.write(f"{name} {len(ids)} {h:016x}\n")


def kind(name, train):
    path = here / f"{name}.json"
    if "--train" in sys.argv or not path.exists():
        path.write_text(train().to_str() + "\n")
    return Tokenizer.from_file(str(path))


def main():
    kinds = {"gpt2": kind("gpt2", gpt2), "llama2": kind("llama2", llama2), "llama3": kind("llama3", llama3)}
    write_hostile(kinds)
    write_long(kinds)
    write_pipelines()
    write_trained()


main()
