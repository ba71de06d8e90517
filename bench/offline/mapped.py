#!/usr/bin/env python3
"""Plain decoding of a target that is larger than memory, streamed from a pack against the plain way: the model's own
file mapped, and the kernel left to read its pages. Both in a memory cgroup of the same size, in turn.

  bench/offline/mapped.py [--to-bytes 2200MB --memory-budget 600MiB --cgroup-mib 700] [--keep DIR]

The target is memory.py's, in bf16: as the file has it, so that nothing is converted into memory. A ratio over 1 says
how many times as long a token takes from the mapped file; a bar holds it above 1. Both texts must be the same. Needs
root. Nothing is shown (exit code 4) where no cgroup can be had, or nothing was streamed.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import statistics
import sys
from pathlib import Path

from edges import drop_caches, pack
from memory import MIB, Cgroup, in_cgroup, inflated
from outcome import Outcome, bootstrap


def decode(options, *target):
    drop_caches()  # pages that an ended group leaves behind count for nobody
    with Cgroup('memory') as group:
        group.limit_memory(options.cgroup_mib * MIB)
        answer = group.run('run', '--mode', 'offline', *target, '--strategy', 'ar', '-n', options.tokens + 1, '-c', 256, '--raw',
                           '-p', 'In view: red cup', '--json')
    if answer.code != 0 or answer.json is None:
        sys.exit(f'outrider-edge: {answer.err}')
    return answer.json


def run(options, folder, outcome):
    model = inflated(folder, options.to_bytes)
    ways = {'streamed': ('--target', pack(model, 'auto', folder / 'inflated.pack'), '--memory-budget', options.memory_budget),
            'mapped': ('--target', model, '--tokenizer', model)}
    rounds = []
    for number in range(options.rounds):
        names = list(ways) if number % 2 == 0 else list(ways)[::-1]
        records = {name: decode(options, *ways[name]) for name in names}
        if records['streamed']['ids'] != records['mapped']['ids']:
            outcome.fail('the texts differ')
        if not records['streamed']['streamed']:
            outcome.show_nothing('nothing was streamed: the budget holds the whole pack')
        rounds.append({name: record['tpot_ms'] for name, record in records.items()})
        print(', '.join(f'{name}: {ms:.0f} ms a token' for name, ms in rounds[-1].items()), file=sys.stderr)
    outcome.figures.update({f'{name}_ms': statistics.median(one[name] for one in rounds) for name in ways})
    outcome.hold('a token from the mapped file over one from the pack',
                 bootstrap(rounds, lambda some: statistics.median(one['mapped'] / one['streamed'] for one in some)), 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--to-bytes', default='2200MB', help='of the inflated target\'s weights')
    parser.add_argument('--memory-budget', default='600MiB')
    parser.add_argument('--cgroup-mib', type=int, default=700)
    parser.add_argument('--tokens', type=int, default=8)
    parser.add_argument('--rounds', type=int, default=6)
    parser.add_argument('--keep', type=Path, help='as memory.py\'s')
    options = parser.parse_args()
    return in_cgroup(options, Outcome('mapped'), run)


if __name__ == '__main__':
    sys.exit(main())
