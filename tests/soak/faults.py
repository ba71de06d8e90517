#!/usr/bin/env python3
"""Faults of a server, its link and its neighbours at random moments while eight edges decode. Every answer is compared
with an undisturbed one: the same tokens, none lost, none repeated. All connections use TLS and keys.

  tests/soak/faults.py [--faults kill,drain,...] [--times 10] [--sessions 8] [--prompts FILE.jsonl] [--seed 0]
  tests/soak/faults.py --short      # the quick ones, once each: in CI

Inconclusive (exit code 4) unless each fault was seen to occur. --help lists the faults.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import sys
import time

import link_faults
import neighbour_faults
import server_faults
from scene import Scene

from outcome import Outcome

FAULTS = {fault.__name__: fault for module in (server_faults, link_faults, neighbour_faults) for fault in module.FAULTS}
# Quick faults without rights or packages: at least one of the server, of the link and of neighbours.
SHORT = 'kill,drain,hang,reset,silence,flap,garble,move,vanish,scrape'
UP_SECONDS = (0.3, 1.5)  # between faults


def run(options, outcome):
    scene = Scene(options)
    occurred = collections.Counter()
    try:
        scene.load.start()
        for number in range(options.times):
            for name in options.faults:
                time.sleep(scene.source.uniform(*UP_SECONDS))
                scene.wait_for_answers()
                occurred[name] += FAULTS[name](scene)
                print(f'{name} {number + 1}/{options.times}: {scene.load.count} answers, {scene.load.reconnects} reconnects, '
                      f'{len(scene.load.wrong)} wrong', file=sys.stderr)
    finally:
        scene.end()
    outcome.figures.update({'times': options.times, 'occurred': dict(occurred), 'sessions': options.sessions,
                            'answers': scene.load.count, 'reconnects': scene.load.reconnects, 'seed': options.seed})
    for why, times in collections.Counter(scene.load.wrong).items():
        outcome.fail(f'{times} x {why}')
    for name in options.faults:
        if occurred[name] < options.times:
            outcome.mark_inconclusive(f'{name} was seen to occur {occurred[name]} times of {options.times}')
    wrong = len(scene.load.wrong)
    outcome.hold('answers with another text, or none', (wrong, wrong, wrong), 0, at_least=False)


def fault_names(text):
    names = text.split(',')
    for name in names:
        if name not in FAULTS:
            raise argparse.ArgumentTypeError(f"'{name}' is none. Remedy: some of {','.join(FAULTS)}")
    return names


def main():
    listed = '\n'.join(f'  {name:9} {fault.__doc__}' for name, fault in FAULTS.items())
    parser = argparse.ArgumentParser(description=__doc__, epilog=f'the faults:\n{listed}',
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--faults', type=fault_names, help='separated by commas [all]')
    parser.add_argument('--times', type=int, help='how often each fault happens [10]')
    parser.add_argument('--short', action='store_true', help=f'the same as --times 1 --faults {SHORT}')
    parser.add_argument('--sessions', type=int, default=8)
    parser.add_argument('--prompts', help='JSONL file with "prompt" [three of our own]')
    parser.add_argument('--max-tokens', type=int, default=120)
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    options.faults = options.faults or (fault_names(SHORT) if options.short else list(FAULTS))
    options.times = options.times or (1 if options.short else 10)
    outcome = Outcome('faults')
    run(options, outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
