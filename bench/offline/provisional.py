#!/usr/bin/env python3
"""Whether a draft that works on while a streamed pass waits for its reads makes that pass longer: pass lengths of the
same answers with provisional generation over those without, prompt by prompt in turn.

  bench/offline/provisional.py --prompts FILE.jsonl [--flash-bandwidth 60MB/s]
  bench/offline/provisional.py --target models/smollm2/*.gguf --draft models/smollm2/draft --dtype int4 \\
      --flash-bandwidth 750MB/s --prompts FILE.jsonl

Lengths are those that answers tell of their passes behind the prompt's, at chains of equal length. Nothing is shown
(exit code 4) where reading does not bound the passes, or the draft made no more steps with than without.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import sys
import tempfile
from pathlib import Path

from edges import DRAFT, TARGET, edge, least_budget, pack, read_prompts
from outcome import Outcome, bootstrap

LONGER = 1.03
WAITING = 0.5  # least share of a pass that waits for reads: else there is hardly time to draft in
WAYS = ('false', 'true')


def answer(flags, provisional, prompt):
    done = edge('run', *flags, '--provisional', provisional, '-p', prompt)
    if done.code != 0 or done.json is None:
        sys.exit(f'outrider-edge: {done.err}')
    return done.json


def figures(record):
    first, streamed = record['first_verdict'], record['streamed'] or {}
    return {'ids': record['ids'], 'ms': record['target_compute_ms'] - first['compute_ms'], 'passes': record['target_passes'] - 1,
            'rows': record['target_rows'] - first['rows'], 'steps': record['draft_steps'],
            'waiting_ms': streamed.get('waiting_ms', 0), 'length_ms': streamed.get('length_ms', 0)}


def run(options, folder, outcome):
    common = ('--mode', 'offline', '--model', options.draft, '--strategy', 'sd', '--tree', 'chain', '--spec-draft-n-max', options.length,
              '-n', options.max_tokens, '-c', options.context, '--json')
    target = pack(options.target, options.dtype, folder / 'target.pack')
    budget = max(least_budget(target, *common, '--provisional', way, '-p', 'x') for way in WAYS)
    flags = ('--target', target, '--memory-budget', f'{budget}MiB', '--flash-bandwidth', options.flash_bandwidth, *common)
    pairs = []
    for number, prompt in enumerate(read_prompts(options.prompts, options.num_prompts)):
        pair = {way: figures(answer(flags, way, prompt)) for way in (WAYS if number % 2 == 0 else WAYS[::-1])}
        if pair['true']['ids'] != pair['false']['ids']:
            outcome.fail(f'prompt {number}: the texts differ')
        if all(one['passes'] > 0 for one in pair.values()):
            pairs.append(pair)
            print(f'prompt {number}: ' + ', '.join(f'provisional {way}: {pair[way]["ms"] / pair[way]["passes"]:.1f} ms a pass, '
                                                   f'{pair[way]["steps"]} steps' for way in WAYS), file=sys.stderr)
    return pairs


def per_pass(pairs, way, what='ms'):
    return sum(pair[way][what] for pair in pairs) / sum(pair[way]['passes'] for pair in pairs)


def judge(pairs, outcome):
    steps = {way: sum(pair[way]['steps'] for pair in pairs) for way in WAYS}
    waiting = sum(pair['false']['waiting_ms'] for pair in pairs) / max(1, sum(pair['false']['length_ms'] for pair in pairs))
    outcome.figures.update({f'provisional_{way}': {'pass_ms': per_pass(pairs, way), 'rows_per_pass': per_pass(pairs, way, 'rows'),
                                                   'draft_steps': steps[way]} for way in WAYS})
    outcome.figures.update(answers=len(pairs), waiting_share=waiting)
    if waiting < WAITING:
        outcome.show_nothing(f'a pass waits for reads {waiting:.0%} of its time')
    if steps['true'] <= steps['false']:
        outcome.show_nothing('the draft made no more steps with provisional generation')
    outcome.hold('a pass with provisional generation over one without',
                 bootstrap(pairs, lambda some: per_pass(some, 'true') / per_pass(some, 'false')), LONGER, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--target', default=str(TARGET))
    parser.add_argument('--draft', default=str(DRAFT))
    parser.add_argument('--dtype', default='auto')
    parser.add_argument('--flash-bandwidth', default='60MB/s', help='of the emulated flash')
    parser.add_argument('--prompts', required=True, help='JSONL file with "prompt"')
    parser.add_argument('--num-prompts', type=int, default=12)
    parser.add_argument('--length', type=int, default=4, help='of the chains')
    parser.add_argument('--max-tokens', type=int, default=48)
    parser.add_argument('--context', type=int, default=512)
    options = parser.parse_args()
    outcome = Outcome('provisional')
    outcome.figures['emulated_flash'] = options.flash_bandwidth
    with tempfile.TemporaryDirectory() as folder:
        pairs = run(options, Path(folder), outcome)
    if pairs:
        judge(pairs, outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
