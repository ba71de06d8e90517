#!/usr/bin/env python3
"""Loops of an elastic target's levels: each prompt is answered by each level that is named, which stays, and by the same level chosen
for a time, which goes on with a larger one where the text loops.

  build/release/bin/outrider-train data-robot --seed 2 --count 100 --split heldout --out robot-heldout.jsonl
  ./run soak loops --prompts robot-heldout.jsonl

Held: no answer of a level that a time chose has a loop of over 24 tokens, unless the full level says it. Figures by level: answers
that loop if named, those that went on with a larger level, and with which. Inconclusive (exit code 4) where no named level loops.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from edges import ROOT, TARGET, Edge, Server, free_port, read_prompts, wait_until_served
from loops import LONGEST, ask_level, longest_loop  # beside the end-to-end tests, as edges.py finds them
from outcome import Outcome

CLIENTS = 2


def levels_of(address):
    """Names and qualities of the levels, without the full one."""
    with urllib.request.urlopen(f'http://{address}/v1/models', timeout=30) as answer:
        models = json.load(answer)['data']
    return [(model['level']['name'], model['level']['quality']) for model in models if 'level' in model][1:]


def measure(options, address, level, quality, prompts, outcome):
    def both(prompt):
        named, _ = ask_level(address, prompt, options.tokens, model=f'demo-target@{level}')
        chosen, told = ask_level(address, prompt, options.tokens, slo={'time_ms': 0.001, 'min_quality': quality})
        return longest_loop(named), longest_loop(chosen), told
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(both, prompts))
    courses = [told['course'] for _, _, told in answers]
    moved = [course for course in courses if ',' in course]
    by_full = [course.endswith(':100') for course in courses]
    kept = [loop for (_, loop, _), full in zip(answers, by_full) if loop > LONGEST and not full]
    if kept:
        outcome.fail(f'level {level}: {len(kept)} answers with a loop of over {LONGEST} tokens, the longest of {max(kept)}')
    return {'answers': len(answers), 'named_with_loops': sum(loop > LONGEST for loop, _, _ in answers),
            'chosen_with_loops': sum(loop > LONGEST for _, loop, _ in answers), 'of_them_below_the_full_level': len(kept), 'went_on_larger': len(moved),
            'came_to_the_full_level': sum(by_full), 'courses': sorted(set(moved))[:4]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prompts', default=ROOT / 'bench/prompts/robot.jsonl', help='JSONL file with "prompt" [bench/prompts/robot.jsonl]')
    parser.add_argument('--count', type=int, default=0, help='of the prompts; 0: all')
    parser.add_argument('--tokens', type=int, default=80, help='of an answer, at most')
    parser.add_argument('--program', choices=('server', 'edge'), default='server')
    options = parser.parse_args()
    outcome = Outcome('loops')
    prompts, port = read_prompts(options.prompts, options.count), free_port()
    elastic = ('--elastic', TARGET / 'elastic.json')
    server = Server('--http-port', port, *elastic) if options.program == 'server' else None
    serving = None if server else Edge('serve', '--target', TARGET, *elastic, '--draft-level', '40', '--port', port)
    address = f'127.0.0.1:{port}'
    wait_until_served(f'http://{address}')
    try:
        found = {level: measure(options, address, level, quality, prompts, outcome) for level, quality in levels_of(address)}
    finally:
        if server:
            server.stop()
        else:
            serving.interrupt()
            serving.wait()
    outcome.figures.update(program=options.program, tokens=options.tokens, levels=found)
    looped = sum(each['named_with_loops'] for each in found.values())
    if not looped:
        outcome.mark_inconclusive('no level that was named loops')
    kept = sum(each['of_them_below_the_full_level'] for each in found.values())
    outcome.hold('answers of a level that a time chose with a loop of over 24 tokens', (kept, kept, kept), 0, at_least=False)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
