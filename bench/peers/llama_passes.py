#!/usr/bin/env python3
"""Times llama.cpp's passes as its standard input asks for them: the same lines as outrider-passes.

  pass ROWS CONTEXT     ->  milliseconds of a batch of so many tokens with logits, behind so many
  prefill TOKENS        ->  milliseconds of a prompt, of which the last token has logits

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import ctypes
import sys
import time

import llama_cpp as llama

MMAP = 1  # llama_load_mode
CHUNK = 512  # at most, of a context that is filled without being timed


class Passes:
    def __init__(self, options):
        llama.llama_backend_init()
        silent = llama.llama_log_callback(lambda *_: None)
        llama.llama_log_set(silent, ctypes.c_void_p(0))
        self.keep = silent
        how = llama.llama_model_default_params()
        if options.mapped:  # else it converts 4-bit matrices into memory of its own
            how.load_mode, how.use_extra_bufts = MMAP, False
        self.model = llama.llama_model_load_from_file(options.model.encode(), how)
        if not self.model:
            sys.exit(f'llama_passes.py: {options.model} cannot be loaded')
        params = llama.llama_context_default_params()
        params.n_ctx = options.capacity
        self.most = options.batch
        params.n_batch = options.batch
        params.n_ubatch = min(512, options.batch)
        params.n_threads = params.n_threads_batch = options.threads
        self.context = llama.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit('llama_passes.py: no context')
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.batch = llama.llama_batch_init(options.batch, 0, 1)
        self.filled = 0

    def decode(self, begin, count, all_logits):
        self.batch.n_tokens = count
        for i in range(count):
            self.batch.token[i] = (begin + i) * 7919 % self.vocabulary
            self.batch.pos[i] = begin + i
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = 0
            self.batch.logits[i] = all_logits or i + 1 == count
        start = time.perf_counter()
        failed = llama.llama_decode(self.context, self.batch)
        llama.llama_synchronize(self.context)
        seconds = time.perf_counter() - start
        if failed:
            sys.exit(f'llama_passes.py: llama_decode() of {count} tokens at {begin}: {failed}')
        return seconds

    def keep_first(self, length):
        llama.llama_memory_seq_rm(llama.llama_get_memory(self.context), 0, length, -1)
        self.filled = length

    def time_pass(self, rows, context):
        self.keep_first(min(self.filled, context))
        while self.filled < context:
            count = min(CHUNK, self.most, context - self.filled)
            self.decode(self.filled, count, False)
            self.filled += count
        seconds = self.decode(context, rows, True)
        self.keep_first(context)
        return seconds

    def time_prefill(self, tokens):
        self.keep_first(0)
        seconds = sum(self.decode(begin, min(self.most, tokens - begin), False) for begin in range(0, tokens, self.most))
        self.keep_first(0)
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', required=True)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--capacity', type=int, default=4096)
    parser.add_argument('--mapped', action='store_true', help='weights stay in the mapped file')
    parser.add_argument('--batch', type=int, default=2048, help='most tokens at one time; bounds its buffers')
    passes = Passes(parser.parse_args())
    print('ready', llama.llama_print_system_info().decode().replace('\n', ' '), flush=True)
    for line in sys.stdin:
        verb, *numbers = line.split()
        seconds = {'pass': passes.time_pass, 'prefill': passes.time_prefill}[verb](*map(int, numbers))
        print(f'{seconds * 1e3:.6f}', flush=True)


if __name__ == '__main__':
    main()
