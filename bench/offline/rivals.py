#!/usr/bin/env python3
"""Ways of decoding from a pack on this device's flash, by the wall clock: trees, chains and plain decoding
answer the same prompts in turn, with the same weights, reader and draft. Each has the least memory budget that it
goes with and --spare-mib, so that all stream the same in a pass; plain decoding, which loads no draft, has less.

  bench/offline/rivals.py --target models/smollm2/*.gguf --draft models/smollm2/draft --dtype int4 \\
      --flash-bandwidth 750MB/s --prompts FILE.jsonl --num-prompts 12 --out DIR

DIR/answers.jsonl keeps each answer; the same command with the same DIR goes on behind the last one, and
--pause-after S ends a run after S seconds (exit code 75) to be gone on with later. Speeds are of decoding: the
first verdict, with the prompt's prefill, is left out. Every answer's tokens are held against plain decoding's.
Nothing is shown (exit code 4) where no pass was streamed.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import sys
import time
from pathlib import Path

from edges import edge, least_budget, pack, read_prompts
from outcome import Outcome, bootstrap

PAUSED = 75


def chain(length, *flags):
    return ('--strategy', 'sd', '--tree', 'chain', '--spec-draft-n-max', length, *flags)


WAYS = {'flash-ar': ('--strategy', 'ar'),
        **{f'chain-{length}': chain(length) for length in (1, 2, 3, 4, 6, 8)},
        'chain-4-provisional': chain(4, '--provisional', 'true'),
        'mirror': ('--strategy', 'mirror'),
        **{kind: ('--strategy', 'sd', '--tree', kind) for kind in ('fixed', 'top-n', 'llmcad', 'edgellm', 'lever', 'outrider')}}
OURS = 'outrider'


def settings_of(options):
    return {key: getattr(options, key) for key in ('target', 'draft', 'dtype', 'flash_bandwidth', 'prompts', 'num_prompts',
                                                   'max_tokens', 'temp', 'ways', 'spare_mib')}


class Journal:
    """What was answered, on disk: a line of settings, then one for each answer."""

    def __init__(self, folder, settings):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / 'answers.jsonl'
        self.answers = {}
        lines = self.path.read_text(encoding='utf-8').splitlines() if self.path.exists() else []
        if lines and json.loads(lines[0]) != settings:
            sys.exit(f'{self.path}: of a run with other settings: {lines[0]}. Remedy: another --out')
        for line in lines[1:]:
            answer = json.loads(line)
            self.answers[answer['prompt'], answer['way']] = answer
        if not lines:
            self._append(settings)

    def _append(self, value):
        with open(self.path, 'a', encoding='utf-8') as file:
            file.write(json.dumps(value) + '\n')

    def add(self, answer):
        self.answers[answer['prompt'], answer['way']] = answer
        self._append(answer)


def answer_of(flags, way, number, prompt, folder):
    done = edge('run', *flags, *WAYS[way], '--state-dir', folder / 'learnt' / way, '-p', prompt)
    if done.code != 0:
        sys.exit(f'{way}: {done.err}')
    record = done.json
    first, streamed = record['first_verdict'], record['streamed'] or {}
    return {'prompt': number, 'way': way, 'ids': record['ids'], 'decode_ms': record['decode_ms'],
            'tokens': record['completion_tokens'] - first['tokens'], 'passes': record['target_passes'] - 1,
            'rows': record['target_rows'] - first['rows'], 'streamed_mb': streamed.get('bytes_read', 0) / 1e6,
            'streamed': streamed}


def run(options, journal, folder):
    """False if it was paused."""
    began = time.monotonic()
    ways = options.ways.split(',')
    prompts = read_prompts(options.prompts, options.num_prompts)
    common = ('--mode', 'offline', '--model', options.draft, '-n', options.max_tokens, '-c', options.context, '--temp',
              options.temp, '--json')
    target = pack(options.target, options.dtype, folder / 'target.pack')
    budgets = {way: least_budget(target, *common, *WAYS[way], '-p', 'x') + options.spare_mib for way in ways}
    flags = ('--target', target, *common)
    if options.flash_bandwidth:
        flags += ('--flash-bandwidth', options.flash_bandwidth)
    # A first answer that is not counted: what a way learns of the device, it has learnt.
    for number, prompt in [(-1, prompts[-1]), *enumerate(prompts)]:
        for turn in range(len(ways)):
            way = ways[(number + turn) % len(ways)]
            if (number, way) in journal.answers:
                continue
            if options.pause_after and time.monotonic() - began > options.pause_after:
                return False
            budget = ('--memory-budget', f'{budgets[way]}MiB')
            journal.add(answer_of((*flags, *budget), way, number, prompt, folder) | {'budget_mib': budgets[way]})
        print(f'{number + 1} of {len(prompts)} prompts', file=sys.stderr)
    return True


def ms_per_token(answers):
    return sum(a['decode_ms'] for a in answers) / max(1, sum(a['tokens'] for a in answers))


def speedup(base, ours):
    """Of the same prompts."""
    def of_pairs(pairs):
        return ms_per_token([slow for slow, _ in pairs]) / ms_per_token([fast for _, fast in pairs])
    return bootstrap([(a, b) for a, b in zip(base, ours) if a['tokens'] > 0 and b['tokens'] > 0], of_pairs)


def judge(options, journal, outcome):
    counted = {way: [journal.answers[number, way] for number in sorted({n for n, _ in journal.answers if n >= 0})]
               for way in options.ways.split(',')}
    base = counted['flash-ar']
    for number, way in journal.answers:
        if journal.answers[number, way]['ids'] != journal.answers[number, 'flash-ar']['ids']:
            outcome.fail(f'{way}, prompt {number}: another text than plain decoding')
    if all(answer['streamed_mb'] == 0 for answer in base):
        outcome.show_nothing('no pass was streamed: the budget holds the whole pack')
    table = {}
    for way, answers in counted.items():
        value, low, high = speedup(base, answers)
        passes, tokens = (sum(a[key] for a in answers) for key in ('passes', 'tokens'))
        table[way] = {'over_flash_ar': [value, low, high], 'ms_per_token': ms_per_token(answers),
                      'tokens_per_pass': tokens / max(1, passes), 'rows_per_pass': sum(a['rows'] for a in answers) / max(1, passes)}
        print(f'{way:20} {value:6.3f} [{low:.3f}, {high:.3f}]  {ms_per_token(answers):8.1f} ms a token '
              f'{table[way]["tokens_per_pass"]:6.2f} tokens {table[way]["rows_per_pass"]:6.1f} rows a pass', file=sys.stderr)
    outcome.figures.update({**settings_of(options), 'emulated_flash': bool(options.flash_bandwidth), 'ways': table})
    if OURS not in counted:
        return outcome.show_nothing(f'{OURS} is not among --ways')
    outcome.hold(f'{OURS} over flash-ar', speedup(base, counted[OURS]), 1.5)
    chains = [way for way in counted if way.startswith('chain-') and way.split('-')[-1].isdigit()]
    best = min(chains, key=lambda way: ms_per_token(counted[way])) if chains else None
    for way in counted:
        if way in ('flash-ar', OURS) or (way in chains and way not in (best, 'chain-8')):
            continue
        name = f'{way}, the best chain' if way == best else way
        outcome.hold(f'{OURS} over {name}', speedup(counted[way], counted[OURS]), 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--target', required=True)
    parser.add_argument('--draft', required=True)
    parser.add_argument('--dtype', default='int4')
    parser.add_argument('--flash-bandwidth', help='of an emulated flash [this machine\'s disk]')
    parser.add_argument('--prompts', required=True, help='JSONL file with "prompt"')
    parser.add_argument('--num-prompts', type=int, default=12)
    parser.add_argument('--max-tokens', type=int, default=48)
    parser.add_argument('--context', type=int, default=512)
    parser.add_argument('--temp', type=float, default=0)
    parser.add_argument('--ways', default=','.join(WAYS))
    parser.add_argument('--spare-mib', type=int, default=0, help='beyond the least --memory-budget')
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--pause-after', type=float, help='seconds')
    options = parser.parse_args()
    options.target, options.draft = str(options.target), str(options.draft)
    journal = Journal(options.out, settings_of(options))
    if not run(options, journal, options.out):
        return PAUSED
    outcome = Outcome('rivals')
    judge(options, journal, outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
