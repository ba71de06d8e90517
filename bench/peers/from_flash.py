#!/usr/bin/env python3
"""A model that is larger than memory: plain decoding from Outrider's pack against llama.cpp with mmap, in turn,
each in a memory cgroup of half the file's size. Needs root.

  .venv-peers/bin/python bench/peers/from_flash.py --model FILE.gguf --dtype int4 --pack FILE.pack

The pack is made of that GGUF file, if there is none yet. Before each turn the page cache is dropped, so a file
is first read inside the cgroup, which then pays for its pages. Times are of one token behind a short text, the
first one left out. The ratio is that of the times, round by round; over 1, Outrider is faster. Nothing is
shown (exit code 4) where nothing was streamed. The last line is one JSON object.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, 'tests/e2e'), os.path.join(ROOT, 'bench/offline')]

from compare import Program  # noqa: E402
from devices import Cgroup, cannot  # noqa: E402
from edges import drop_caches  # noqa: E402
from outcome import Outcome, median  # noqa: E402
from programs import edge  # noqa: E402

LEAST = 1.5
BUDGET_SHARE = 0.95  # of the cgroup, as the kernel's own pages are beside it
CONTEXT = 32


def inside(group, command):
    return ['sh', '-c', 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group.path), *map(str, command)]


def ours(options, limit, outcome):
    """Milliseconds of a token, and what was streamed."""
    drop_caches()
    with Cgroup('memory') as group:
        group.limit_memory(limit)
        answer = group.run('run', '--mode', 'offline', '--target', options.pack, '--memory-budget', int(limit * BUDGET_SHARE),
                           '--strategy', 'ar', '--threads', options.threads, '-c', 256, '-n', options.tokens + 1, '--raw',
                           '-p', 'A robot reads ' * (CONTEXT // 4), '--json')
    if answer.code != 0 or answer.json is None:
        sys.exit(f'outrider-edge: {answer.err}')
    print(f'outrider: {answer.json["tpot_ms"]:.0f} ms a token', file=sys.stderr)
    streamed = answer.json['streamed']
    if not streamed or streamed['bytes_read'] == 0:
        outcome.show_nothing('nothing was streamed: half of the file holds the whole pack')
    return answer.json['tpot_ms'], streamed


def theirs(options, limit):
    drop_caches()
    with Cgroup('memory') as group:
        group.limit_memory(limit)
        peer = Program(inside(group, [sys.executable, os.path.join(HERE, 'llama_passes.py'), '--model', options.model,
                                      '--threads', options.threads, '--capacity', 256, '--batch', CONTEXT, '--mapped']))
        times = [peer.ask(f'pass 1 {CONTEXT}') for _ in range(options.tokens + 1)]
        peer.process.stdin.close()
        peer.process.wait()
    return statistics.mean(times[1:]), peer.about


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True, help='GGUF file with a vocabulary')
    parser.add_argument('--dtype', default='int4', help='of the pack')
    parser.add_argument('--pack', required=True)
    parser.add_argument('--tokens', type=int, default=10)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--threads', type=int, default=2)
    options = parser.parse_args()
    why = cannot(Cgroup)
    if why:
        sys.exit(f'from_flash.py: {why}')
    if not os.path.exists(options.pack):
        packed = edge('pack', '--model', options.model, '--dtype', options.dtype, '--out', options.pack)
        if packed.code != 0:
            sys.exit(packed.err)
    limit = os.path.getsize(options.model) // 2
    outcome = Outcome('from_flash')
    pairs = []
    for number in range(options.rounds):
        if number % 2 == 0:
            our, streamed = ours(options, limit, outcome)
            their, about = theirs(options, limit)
        else:
            their, about = theirs(options, limit)
            our, streamed = ours(options, limit, outcome)
        pairs.append((our, their))
        print(f'outrider {our:.0f} ms a token ({1e3 / our:.2f}/s), the peer {their:.0f} ms ({1e3 / their:.2f}/s), '
              f'{their / our:.2f} x', file=sys.stderr)
    our, their = (statistics.median(column) for column in zip(*pairs))
    outcome.figures.update({'model': os.path.basename(options.model), 'file_mb': os.path.getsize(options.model) / 1e6,
                            'pack_mb': os.path.getsize(options.pack) / 1e6, 'cgroup_mb': limit / 1e6, 'dtype': options.dtype,
                            'threads': options.threads, 'peer': about, 'outrider_tokens_per_s': 1e3 / our,
                            'peer_tokens_per_s': 1e3 / their, 'streamed_last': streamed})
    outcome.hold('llama.cpp\'s time over ours', median([b / a for a, b in pairs]), LEAST)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
