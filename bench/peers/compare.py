#!/usr/bin/env python3
"""Outrider's kernels against llama.cpp's on one GGUF file: both time the same passes in turn.

  ./run peers --model FILE.gguf [--dtype auto] [--threads 2] [--rounds 7]

A ratio over 1 says how many times faster Outrider is: of the medians of all rounds, with the middle
half of the rounds' own ratios beside it. The last line is one JSON object.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Threads of the other program may spin for a moment after its pass.
SETTLE_SECONDS = 0.05


class Program:
    """A program that answers each line with a number of milliseconds."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f'compare.py: {self.process.args[0]} ended')
        return line.strip()

    def ask(self, line):
        time.sleep(SETTLE_SECONDS)
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        return float(self.read())


def compare(ours, peer, cases, rounds):
    """{case: [(our ms, the peer's ms)]}; who goes first changes from round to round."""
    times = {case: [] for case in cases}
    for number in range(rounds + 1):
        for case in cases:
            programs = [ours, peer] if number % 2 == 0 else [peer, ours]
            measured = {program: program.ask(case) for program in programs}
            if number > 0:  # the first round warms up
                times[case].append((measured[ours], measured[peer]))
    return times


def summarise(times):
    rows = {}
    for case, pairs in times.items():
        our, peer = (statistics.median(column) for column in zip(*pairs))
        ratios = sorted(theirs / mine for mine, theirs in pairs)
        quarter = len(ratios) // 4
        rows[case] = {'outrider_ms': round(our, 3), 'peer_ms': round(peer, 3), 'ratio': round(peer / our, 3),
                      'middle_half': [round(ratios[quarter], 3), round(ratios[-1 - quarter], 3)]}
        print(f'{case:16} {our:10.2f} ms {peer:10.2f} ms   {peer / our:6.2f} x', file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True, help='GGUF file')
    parser.add_argument('--ours', help='the same weights for Outrider, where it is another file')
    parser.add_argument('--dtype', default='auto', help='how Outrider computes')
    parser.add_argument('--kernel', default='auto')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--rows', default='1,5,9,17,33')
    parser.add_argument('--context', type=int, default=32, help='tokens before the rows')
    parser.add_argument('--prefill', default='512,2048')
    options = parser.parse_args()
    cases = [f'pass {rows} {options.context}' for rows in options.rows.split(',') if rows]
    cases += [f'prefill {tokens}' for tokens in options.prefill.split(',') if tokens]
    capacity = max([options.context + 64] + [int(case.split()[1]) for case in cases]) + 64
    shared = ['--threads', str(options.threads), '--capacity', str(capacity)]
    ours = Program([os.path.join(ROOT, 'build/release/bin/outrider-passes'), '--model', options.ours or options.model,
                    '--dtype', options.dtype, '--kernel', options.kernel] + shared)
    peer = Program([sys.executable, os.path.join(HERE, 'llama_passes.py'), '--model', options.model] + shared)
    print(f'outrider: {ours.about}\npeer: {peer.about}', file=sys.stderr)
    rows = summarise(compare(ours, peer, cases, options.rounds))
    print(json.dumps({'model': os.path.basename(options.model), 'threads': options.threads, 'dtype': options.dtype,
                      'kernel': options.kernel, 'peer': peer.about, 'cases': rows}))


if __name__ == '__main__':
    main()
