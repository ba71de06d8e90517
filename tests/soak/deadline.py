#!/usr/bin/env python3
"""The text of a streamed target's level in memory by a robot's deadline, by the wall clock: an edge that serves the demo
target, packed by level, from an emulated flash on which a whole answer takes longer than the deadline.

  build/release/bin/outrider-train data-robot --seed 2 --count 100 --split heldout --out robot-heldout.jsonl
  ./run soak deadline --prompts robot-heldout.jsonl

Held: by the deadline at least 95 % of the answers have an action that parses. How many of those are the final, verified
one is a figure. Inconclusive (exit code 4) where the median answer is whole by its deadline.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from edges import ROOT, TARGET, Edge, edge, free_port, least_budget, wait_until_served
from deadlines import robot_action_by, robot_prompts  # beside the end-to-end tests, as edges.py finds them
from outcome import Outcome, bootstrap

PARSES = 0.95
# Beside the deadline itself: the way of an event through HTTP to the reader.
LATE_S = 0.01


def ask(options, folder):
    target = Path(folder) / 'levels.pack'
    packed = edge('pack', '--model', TARGET, '--elastic', '--out', target)
    if packed.code != 0:
        sys.exit(packed.err)
    drafting = ('-c', '256', '--draft-level', options.draft_level)
    budget = least_budget(target, *drafting, '-p', 'x')
    port = free_port()
    serving = Edge('serve', '--target', target, *drafting, '--memory-budget', f'{budget}MiB', '--port', port, '-n', '80',
                   '--temp', '0', '--flash-bandwidth', options.flash_bandwidth)
    try:
        wait_until_served(f'http://127.0.0.1:{port}')
        return [robot_action_by(port, prompt, options.time_ms) for prompt in robot_prompts(options.prompts)]
    finally:
        serving.interrupt()
        serving.wait()


def share(answers, holds):
    return bootstrap([1.0 if holds(answer) else 0.0 for answer in answers], statistics.mean)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prompts', default=ROOT / 'bench/prompts/robot.jsonl', help='JSONL file with "prompt" [bench/prompts/robot.jsonl]')
    parser.add_argument('--time-ms', type=int, default=800)
    parser.add_argument('--draft-level', default='60')
    parser.add_argument('--flash-bandwidth', default='10MB/s', help='of the emulated flash')
    options = parser.parse_args()
    outcome = Outcome('deadline')
    with tempfile.TemporaryDirectory() as folder:
        answers = ask(options, folder)
    for number, answer in enumerate(answers):
        if answer.said_s > options.time_ms / 1000 + LATE_S:
            answers[number] = answer._replace(expected=None)
    took = bootstrap(answers, lambda some: statistics.median(answer.took_s for answer in some))
    outcome.figures.update(flash_bandwidth=options.flash_bandwidth, time_ms=options.time_ms, answers=len(answers), answer_s=took,
                           expected_is_final=share(answers, lambda one: one.expected is not None and one.expected == one.final))
    if took[0] <= options.time_ms / 1000:
        outcome.mark_inconclusive('most answers were whole by the deadline')
    outcome.hold('answers with an action that parses by the deadline',
                 share(answers, lambda one: one.expected is not None), PARSES)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
