#!/usr/bin/env python3
"""The savings and the costs of pruning in the middle of a pass on a real pair, by the wall clock: the planner's own trees with
and without it, prompt by prompt in turn, the target in this device's memory, or streamed where --flash-bandwidth is given.

  ./run soak pruning --target models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --draft models/smollm2/draft --flash-bandwidth 750MB/s

Held: at least 30 % of the rows that reach the predictor end there, at least 95 % of the accepted tokens of a pass are
kept, and a token takes no longer. Every answer's tokens are compared with those without pruning. Inconclusive (exit
code 4) where no row was pruned.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import sys
import tempfile
from pathlib import Path

from edges import ROOT, edge, least_budget, pack, read_prompts
from outcome import Outcome, bootstrap

SAVED, KEPT, SPEED = 0.30, 0.95, 1.0
WAYS = ('whole', 'pruned')


def answer(flags, prompt):
    done = edge('run', *flags, '-p', prompt)
    if done.code != 0 or done.json is None:
        sys.exit(f'outrider-edge: {done.err}')
    record, first = done.json, done.json['first_verdict']
    return {'ids': record['ids'], 'decode_ms': record['decode_ms'], 'tokens': record['completion_tokens'] - first['tokens'],
            'passes': record['target_passes'] - 1, 'rows': record['target_rows'] - first['rows'], 'pruned': record['target_rows_pruned'],
            'compute_ms': record['target_compute_ms'] - first['compute_ms']}


def with_target(options, folder, flags):
    """In memory, or streamed within the least budget that goes with these flags: so all stream the same in a pass."""
    if not options.flash_bandwidth:
        return ('--target', options.target, *flags)
    target = pack(options.target, options.dtype, folder / 'target.pack')
    budget = least_budget(target, *flags, '-p', 'x')
    return ('--target', target, '--memory-budget', f'{budget}MiB', '--flash-bandwidth', options.flash_bandwidth, *flags)


def run(options, folder, outcome):
    common = ('--mode', 'offline', '--model', options.draft, '--dtype', options.dtype, '--strategy', 'sd', '--tree', options.tree,
              '-n', options.max_tokens, '-c', options.context, '--temp', options.temp, '--seed', '0',
              '--generation-config', 'none', '--json')
    pruning = ('--prune', options.prune, *(('--predictor', options.predictor) if options.predictor else ()))
    flags = {'whole': with_target(options, folder, common), 'pruned': with_target(options, folder, (*common, *pruning))}
    prompts = read_prompts(options.prompts, options.num_prompts)
    pairs = []
    # A first answer that is not counted: what a way learns of the device, it has learnt.
    for number, prompt in [(-1, prompts[-1]), *enumerate(prompts)]:
        pair = {way: answer((*flags[way], '--state-dir', folder / way), prompt) for way in (WAYS if number % 2 == 0 else WAYS[::-1])}
        if pair['whole']['ids'] != pair['pruned']['ids']:
            outcome.fail(f'prompt {number}: the texts differ')
        if number >= 0 and all(one['passes'] > 0 and one['tokens'] > 0 for one in pair.values()):
            pairs.append(pair)
        print(f'{number + 1} of {len(prompts)} prompts', file=sys.stderr)
    return pairs


def total(pairs, way, what):
    return sum(pair[way][what] for pair in pairs)


def per_pass(pairs, way, what):
    return total(pairs, way, what) / total(pairs, way, 'passes')


def kept(pairs):
    accepted = [per_pass(pairs, way, 'tokens') - 1 for way in WAYS]
    return accepted[1] / accepted[0] if accepted[0] > 0 else 1


def saved(pairs):
    return total(pairs, 'pruned', 'pruned') / total(pairs, 'pruned', 'rows')


def ms_per_token(pairs, way):
    return total(pairs, way, 'decode_ms') / total(pairs, way, 'tokens')


def judge(pairs, outcome):
    for way in WAYS:
        outcome.figures[way] = {'tokens_per_pass': per_pass(pairs, way, 'tokens'), 'rows_per_pass': per_pass(pairs, way, 'rows'),
                                'compute_ms_per_pass': per_pass(pairs, way, 'compute_ms'), 'ms_per_token': ms_per_token(pairs, way)}
    outcome.figures['pass_computing_ratio'] = bootstrap(
        pairs, lambda some: per_pass(some, 'pruned', 'compute_ms') / per_pass(some, 'whole', 'compute_ms'))
    if total(pairs, 'pruned', 'pruned') == 0:
        outcome.mark_inconclusive('no row was pruned')
    outcome.hold('rows that ended at the predictor', bootstrap(pairs, saved), SAVED)
    outcome.hold('accepted tokens of a pass that are kept', bootstrap(pairs, kept), KEPT)
    outcome.hold('times as fast as without pruning',
                 bootstrap(pairs, lambda some: ms_per_token(some, 'whole') / ms_per_token(some, 'pruned')), SPEED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--target', required=True)
    parser.add_argument('--draft', required=True)
    parser.add_argument('--dtype', default='int4')
    parser.add_argument('--flash-bandwidth', help='of an emulated flash [the target in memory]')
    parser.add_argument('--tree', default='outrider')
    parser.add_argument('--prune', type=float, default=0.01)
    parser.add_argument('--predictor', help="of `outrider-train predictor` [the target's early exits]")
    parser.add_argument('--prompts', default=ROOT / 'bench/prompts/gsm8k.jsonl', help='JSONL file with "prompt" [bench/prompts/gsm8k.jsonl]')
    parser.add_argument('--num-prompts', type=int, default=12)
    parser.add_argument('--max-tokens', type=int, default=48)
    parser.add_argument('--context', type=int, default=512)
    parser.add_argument('--temp', type=float, default=0)
    options = parser.parse_args()
    outcome = Outcome('pruning')
    outcome.figures.update({key: getattr(options, key) for key in ('dtype', 'flash_bandwidth', 'tree', 'prune', 'predictor', 'temp')})
    with tempfile.TemporaryDirectory() as folder:
        pairs = run(options, Path(folder), outcome)
    if pairs:
        judge(pairs, outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
