"""Pairs of .bin and .idx written by Megatron's own builder, and the way back.

    pip install megatron-core torch numpy
    python3 make_shards.py                     # writes the pairs beside this file
    python3 make_shards.py --check AXONN [TOKENIZER...]

--check lets AXONN prepare texts (as bytes, and with each tokenizer directory) and reads what it
wrote with Megatron's reader: documents, lengths, pointers and ids must be those of the texts.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

HERE = os.path.dirname(os.path.abspath(__file__))

# Sequences of documents: one of two sequences, an empty one in the middle and one at the end.
DOCUMENTS = [[[1, 2, 3], [4]], [], [[5, 6, 7, 8, 127]], [[9], [10, 11], [12]], []]
# A sequence a document, as axonn writes them: its files must be these, byte for byte.
PLAIN = [[[1, 2, 3, 4]], [[65498]], [[5, 6]]]
WIDE = [[[65535, 65536, 70000]], [[128255]], [[0, 1, 2, 3]]]


def write(name, dtype, documents, modes=False):
    prefix = os.path.join(HERE, name)
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype, multimodal=modes)
    for sequences in documents:
        for sequence in sequences:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64), 1 if modes else 0)
        builder.end_document()
    builder.finalize(prefix + ".idx")


def make():
    for dtype in (numpy.uint8, numpy.int8, numpy.int16, numpy.uint16, numpy.int32, numpy.int64):
        write(dtype.__name__, dtype, DOCUMENTS)
    write("wide", numpy.int32, WIDE)
    write("plain", numpy.uint16, PLAIN)
    write("modes", numpy.uint16, DOCUMENTS, modes=True)


TEXTS = ["", "one", "two lines\nand a\u2028third", "naïve 日本語 \U0001f600", "x" * 70000, "end"]


def expected(tokenizer, text):
    if tokenizer == "byte":
        return list(text.encode("utf-8")) + [256]
    from tokenizers import Tokenizer

    t = Tokenizer.from_file(os.path.join(tokenizer, "tokenizer.json"))
    eod = next(i for i in (t.token_to_id(n) for n in
                           ("<|endoftext|>", "<|end_of_text|>", "</s>")) if i is not None)
    return t.encode(text, add_special_tokens=False).ids + [eod]


def check(axonn, tokenizer):
    with tempfile.TemporaryDirectory() as folder:
        source, prefix = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out")
        with open(source, "w", encoding="utf-8") as f:
            for text in TEXTS:
                f.write(json.dumps({"text": text}) + "\n")
        subprocess.run([axonn, "prepare", "data.tokenizer=" + tokenizer, "data.train=" + source,
                        "out=" + prefix, "-q"], check=True)
        read = IndexedDataset(prefix)
        want = [expected(tokenizer, text) for text in TEXTS if text]
        assert len(read) == len(want), (len(read), len(want))
        assert list(read.document_indices) == list(range(len(want) + 1))
        for i, ids in enumerate(want):
            assert list(read[i]) == ids, (tokenizer, i)
        print(tokenizer, read.index.dtype.__name__, "ok:", len(want), "documents,",
              int(sum(read.sequence_lengths)), "tokens")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        for name in ["byte"] + sys.argv[3:]:
            check(sys.argv[2], name)
    else:
        make()
