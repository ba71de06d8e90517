#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logits by transformers in f32, of a Hugging Face directory or of a GGUF file's dequantised weights.

Run by hand, with torch, transformers, accelerate, gguf and numpy installed:

    python3 tests/golden/reference_logits.py --model FILE.gguf --out reference.npy
    outrider-bench logits --model FILE.gguf --dtype f32 --against reference.npy

--sample keeps a few rows and every 64th logit, for a test on a large model:

    python3 tests/golden/reference_logits.py --model models/smollm2 --out tests/golden/gguf/smollm2.npy --sample
"""
import argparse
import pathlib

import numpy as np
import torch
from transformers import AutoModelForCausalLM

LENGTH = 96
POSITIONS = [0, 1, 7, 21, 33, 64, 95]
STRIDE = 64


def load(path):
    path = pathlib.Path(path)
    files = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    if path.is_dir() and not files:
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    return AutoModelForCausalLM.from_pretrained(files[0].parent, gguf_file=files[0].name, dtype=torch.float32,
                                                attn_implementation="eager").eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--ids", help="divided by commas; else those that outrider-bench logits takes")
    parser.add_argument("--sample", action="store_true")
    flags = parser.parse_args()
    model = load(flags.model)
    vocab = model.config.vocab_size
    ids = [(i * i * 7 + i * 13 + 5) % vocab for i in range(LENGTH)]
    if flags.ids:
        ids = [int(number) for number in flags.ids.split(",")]
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0].numpy().astype(np.float32)
    np.save(flags.out, logits[POSITIONS, ::STRIDE] if flags.sample else logits)


if __name__ == "__main__":
    main()
