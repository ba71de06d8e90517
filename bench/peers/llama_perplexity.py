#!/usr/bin/env python3
"""llama.cpp's perplexity of windows of tokens that `outrider-bench perplexity --write-windows` wrote.

  .venv-peers/bin/python bench/peers/llama_perplexity.py --model FILE.gguf --windows FILE

Of each window the first token is given and the others are measured, as Outrider does; so both figures
are of the same predictions. The last line is one JSON object.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import ctypes
import json
import math
import sys

import llama_cpp as llama
import numpy as np


def load(options, longest):
    llama.llama_backend_init()
    options.keep = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(options.keep, ctypes.c_void_p(0))
    model = llama.llama_model_load_from_file(options.model.encode(), llama.llama_model_default_params())
    if not model:
        sys.exit(f'llama_perplexity.py: {options.model} cannot be loaded')
    params = llama.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = longest
    params.n_threads = params.n_threads_batch = options.threads
    context = llama.llama_init_from_model(model, params)
    if not context:
        sys.exit('llama_perplexity.py: no context')
    return context, llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))


def negative_log_likelihood(context, vocabulary, batch, window):
    """Of the window's tokens after the first, in nats, with its number of tokens."""
    llama.llama_memory_clear(llama.llama_get_memory(context), True)
    count = batch.n_tokens = len(window) - 1
    for i in range(count):
        batch.token[i] = window[i]
        batch.pos[i] = i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = True
    if llama.llama_decode(context, batch):
        sys.exit('llama_perplexity.py: llama_decode() failed')
    total = 0.0
    for i in range(count):
        logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), (vocabulary,)).astype(np.float64)
        largest = logits.max()
        total += largest + math.log(np.exp(logits - largest).sum()) - logits[window[i + 1]]
    return total, count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', required=True)
    parser.add_argument('--windows', required=True, help='one JSON array of token ids a line')
    parser.add_argument('--threads', type=int, default=2)
    options = parser.parse_args()
    with open(options.windows, encoding='utf-8') as file:
        windows = [json.loads(line) for line in file]
    longest = max(map(len, windows))
    context, vocabulary = load(options, longest)
    batch = llama.llama_batch_init(longest, 0, 1)
    total, tokens = map(sum, zip(*(negative_log_likelihood(context, vocabulary, batch, each) for each in windows)))
    print(json.dumps({'perplexity': math.exp(total / tokens), 'tokens': tokens}))


if __name__ == '__main__':
    main()
