#!/usr/bin/env python3
"""Writes a GGUF file of random weights in the shape of TinyLlama 1.1B, for comparisons of speed.

  .venv-peers/bin/python bench/peers/make_model.py --type Q8_0 --out FILE.gguf

Matrices are of one type, except for the output matrix of files with 4 bits or less, which is Q8_0; norms are F32.
Types that the package gguf cannot quantise are random blocks. Nothing can be told from such a model but how long it takes. It has no vocabulary, unless --vocabulary names a GGUF file to
take one from: programs that begin with a text need one.
SPDX-License-Identifier: Apache-2.0
"""
import argparse

import gguf
import numpy as np
from gguf.quants import quantize

# Where the f16 scales of random blocks lie, and their size.
RANDOM_BLOCKS = {'IQ4_NL': ([0], 3e-4), 'IQ4_XS': ([0], 2e-5), 'Q2_K': ([80, 82], 2e-3), 'Q3_K': ([108], 6e-4)}
LAYERS, WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY = 22, 2048, 5632, 32, 4, 32000


def add_vocabulary(writer, path):
    """The tokenizer of another file; returns its number of tokens."""
    fields = gguf.GGUFReader(path).fields
    for name, field in fields.items():
        if name.startswith('tokenizer.'):
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
    return len(fields['tokenizer.ggml.tokens'].contents())


def add_keys(writer, context, vocabulary):
    writer.add_block_count(LAYERS)
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    if not vocabulary:
        writer.add_vocab_size(VOCABULARY)
        writer.add_tokenizer_model('no_vocab')
        return VOCABULARY
    tokens = add_vocabulary(writer, vocabulary)
    writer.add_vocab_size(tokens)
    return tokens


def random_matrix(random, outputs, inputs, kind):
    """Returns the numbers as blocks of the type."""
    if kind.name not in RANDOM_BLOCKS:
        return quantize(random.standard_normal((outputs, inputs), dtype=np.float32) * np.float32(0.02), kind)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (outputs * inputs // elements, size), dtype=np.uint8)
    places, scale = RANDOM_BLOCKS[kind.name]
    for place in places:
        blocks[:, place:place + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    return blocks.reshape(outputs, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--type', required=True, choices=['F16', 'Q8_0', 'Q4_0', 'Q4_1', *RANDOM_BLOCKS])
    parser.add_argument('--out', required=True)
    parser.add_argument('--context', type=int, default=8192)
    parser.add_argument('--vocabulary', help='GGUF file of which it takes the tokenizer')
    options = parser.parse_args()
    writer = gguf.GGUFWriter(options.out, 'llama')
    tokens = add_keys(writer, options.context, options.vocabulary)
    random = np.random.default_rng(1)

    def matrix(name, outputs, inputs, kind=options.type):
        kind = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, random_matrix(random, outputs, inputs, kind), raw_dtype=kind)

    def norm(name):
        writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))

    matrix('token_embd.weight', tokens, WIDTH)
    matrix('output.weight', tokens, WIDTH, options.type if options.type == 'F16' else 'Q8_0')
    norm('output_norm.weight')
    kv_width = WIDTH // HEADS * KV_HEADS
    for layer in range(LAYERS):
        for name, outputs, inputs in (('attn_q', WIDTH, WIDTH), ('attn_k', kv_width, WIDTH), ('attn_v', kv_width, WIDTH),
                                      ('attn_output', WIDTH, WIDTH), ('ffn_gate', INNER, WIDTH),
                                      ('ffn_up', INNER, WIDTH), ('ffn_down', WIDTH, INNER)):
            matrix(f'blk.{layer}.{name}.weight', outputs, inputs)
        norm(f'blk.{layer}.attn_norm.weight')
        norm(f'blk.{layer}.ffn_norm.weight')
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == '__main__':
    main()
