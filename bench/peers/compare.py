#!/usr/bin/env python3
"""Compares Outrider's kernels with llama.cpp's on one GGUF file: both time the same passes in turn.

  ./run peers --model FILE.gguf [--dtype auto] [--threads 2] [--rounds 7]

A ratio over 1 says how many times faster Outrider is: of the medians of all rounds, with its 95 % interval. The last
line is one JSON object. Exit code: 0 if every bar (bars.py) is met, 1 if one is missed, 4 inconclusive.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

from gguf import GGUFReader

import bars

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Threads of the other program may still spin for a moment after its pass.
SETTLE_SECONDS = 0.05


class Program:
    """A program that answers each line with a number of milliseconds."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            how = f'with exit code {code}' if code >= 0 else f'by {signal.Signals(-code).name}'
            sys.exit(f'compare.py: {os.path.basename(self.process.args[0])} ended {how}. Remedy: read what it printed above; a peer '
                     'that ends by a signal has instructions that do not run here (bench/peers/README.md)')
        return line.strip()

    def ask(self, line):
        time.sleep(SETTLE_SECONDS)
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        return float(self.read())


def compare(ours, peer, cases, rounds):
    """{case: [(our ms, the peer's ms)]}; the first one alternates from round to round."""
    times = {case: [] for case in cases}
    for number in range(rounds + 1):
        for case in cases:
            programs = [ours, peer] if number % 2 == 0 else [peer, ours]
            measured = {program: program.ask(case) for program in programs}
            if number > 0:  # the first round warms up
                times[case].append((measured[ours], measured[peer]))
    return times


def tensor_type(path):
    """The most frequent type of the layers' weights."""
    counts = Counter()
    for tensor in GGUFReader(path).tensors:
        if tensor.name.startswith('blk.'):
            counts[tensor.tensor_type.name] += int(tensor.n_elements)
    return counts.most_common(1)[0][0]


def show(cases):
    for case, row in cases.items():
        ends = f'[{row["low"]}, {row["high"]}]' if row['low'] else ''
        bar = {None: '', True: f'at least {row["least"]}: met', False: f'at least {row["least"]}: NOT MET'}[row['met']]
        print(f'{case:16} {row["outrider_ms"]:10.2f} ms {row["peer_ms"]:10.2f} ms   {row["ratio"]:6.2f} x {ends} {bar}',
              file=sys.stderr)


def numbers(text):
    return [int(number) for number in text.split(',') if number]


def cases_of(options):
    first, *others = numbers(options.context)
    return [f'pass {rows} {first}' for rows in numbers(options.rows)] + [f'pass 1 {context}' for context in others] + \
        [f'prefill {tokens}' for tokens in numbers(options.prefill)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True, help='GGUF file')
    parser.add_argument('--ours', help='the same weights for Outrider, if in another file')
    parser.add_argument('--dtype', default='auto', help='how Outrider computes')
    parser.add_argument('--kernel', default='auto')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--rows', default='1,5,9,17,33')
    parser.add_argument('--context', default='32', help='tokens before the rows; several: one row behind each, more rows behind the first')
    parser.add_argument('--prefill', default='512,2048')
    options = parser.parse_args()
    cases = cases_of(options)
    capacity = max([context + 64 for context in numbers(options.context)] + [int(case.split()[1]) for case in cases]) + 64
    shared = ['--threads', str(options.threads), '--capacity', str(capacity)]
    ours = Program([os.path.join(ROOT, 'build/release/bin/outrider-passes'), '--model', options.ours or options.model,
                    '--dtype', options.dtype, '--kernel', options.kernel] + shared)
    peer = Program([sys.executable, os.path.join(HERE, 'llama_passes.py'), '--model', options.model] + shared)
    print(f'outrider: {ours.about}\npeer: {peer.about}', file=sys.stderr)
    kind = tensor_type(options.model)
    rows, code = bars.judge(compare(ours, peer, cases, options.rounds), kind, peer.about)
    show(rows)
    print(json.dumps({'model': os.path.basename(options.model), 'tensors': kind, 'passed': code == 0,
                      'threads': options.threads, 'dtype': options.dtype, 'kernel': options.kernel, 'peer': peer.about, 'cases': rows}))
    sys.exit(code)


if __name__ == '__main__':
    main()
