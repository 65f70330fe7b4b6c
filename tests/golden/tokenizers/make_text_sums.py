#!/usr/bin/env python3
"""Writes text_sums.txt: what the Hugging Face library makes of whole texts.

    make_text_sums.py DATA      DATA/text/*.jsonl and DATA/tokenizers/{gpt2,llama2,llama3.1}

A line is: tokenizer, file, number of ids, and the 64-bit FNV-1a hash of the ids as 4-byte
little-endian integers, documents one after the other.
"""
import gzip
import json
import pathlib
import struct
import sys

from tokenizers import Tokenizer


def fnv(data, h=0xcbf29ce484222325):
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def main(data):
    with open(pathlib.Path(__file__).parent / "text_sums.txt", "w") as out:
        for folder in sorted((data / "tokenizers").iterdir()):
            plain = folder / "tokenizer.json"
            text = plain.read_text() if plain.exists() else gzip.open(f"{plain}.gz", "rt").read()
            t = Tokenizer.from_str(text)
            t.encode_special_tokens = True
            for path in sorted((data / "text").glob("*.jsonl")):
                count, h = 0, 0xcbf29ce484222325
                for line in open(path, encoding="utf-8"):
                    ids = t.encode(json.loads(line)["text"], add_special_tokens=False).ids
                    count += len(ids)
                    h = fnv(struct.pack("<%di" % len(ids), *ids), h)
                out.write(f"{folder.name} {path.name} {count} {h:016x}\n")


main(pathlib.Path(sys.argv[1]))
