#!/usr/bin/env python3
"""Cuts the link to a real server at random places of an answer, and holds what the user saw against an
undisturbed answer: the same tokens, none lost, none repeated.

  bench/offline/cuts.py --cuts 50 [--prompts FILE.jsonl] [--seed 0]

Each cut is one of three: connections reset, silence on an open link, the server killed. Every other link
is restored while the answer goes on. Places are drawn from before the first verdict to the last token.
Nothing is shown (exit code 4) unless every manner cut an answer, and some answers went back to the server.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import random
import sys
import tempfile
import time
from pathlib import Path

from edges import DRAFT, ROOT, Server, StampedEdge, TARGET, edge, least_budget, pack, read_prompts
from outcome import Outcome
from tcp_link import TcpLink

PACED = ('--pace-pass-ms', '60')
SPARE_MIB = 8  # what ways of drafting differ in
SAMPLINGS = (('--temp', '0'), ('--temp', '0.8', '--seed', '4'))
STRATEGIES = (('--strategy', 'ar'), ('--strategy', 'sd'), ('--strategy', 'mirror'))
QUICK = ('--failover-after', '1', '--handback-after', '0.3', '--reconnect-timeout', '3')


class Bench:
    """A server that can be killed and started again, a link to it, and this device's pack."""

    def __init__(self, folder, options):
        self.common = ('--model', DRAFT, '-n', options.max_tokens, '-c', 512, '--json')
        target = pack(TARGET, 'auto', Path(folder) / 'target.pack')
        budget = least_budget(target, *self.common, '-p', 'x') + SPARE_MIB
        self.offline = ('--target', target, '--memory-budget', f'{budget}MiB', '--flash-bandwidth', options.flash_bandwidth)
        self.server = Server(*PACED)
        self.link = TcpLink(self.server.port)

    def whole(self, prompt, sampling):
        """The undisturbed answer of this device alone."""
        return edge('run', *self.offline[:2], *self.common, *sampling, '--strategy', 'ar', '-p', prompt).json

    def start(self, prompt, *flags):
        return StampedEdge('run', '--server', self.link.address, *self.offline, *QUICK, *self.common, *flags, '-p', prompt)

    def cut(self, manner):
        if manner == 'killed':
            self.server.kill()
        elif manner == 'reset':
            self.link.reset()
        else:
            self.link.silence()

    def restore(self):
        self.link.restore()
        if self.server.process.poll() is not None:
            self.server = Server(*PACED, port=self.server.port)

    def close(self):
        self.link.close()
        self.server.stop()


def one_cut(bench, draw, manner, prompt, whole, sampling, strategy):
    """One answer, cut once. Returns (what is wrong with it or '', its failovers, its handbacks)."""
    place = draw.randrange(0, max(1, len(whole['text'])))
    running = bench.start(prompt, *sampling, *strategy)
    if place > 0:
        running.wait_until(lambda: len(running.text()) >= place, 60)
    else:
        time.sleep(draw.uniform(0, 0.3))
    bench.cut(manner)
    if draw.random() < 0.5:
        time.sleep(draw.uniform(0.1, 0.6))
        bench.restore()
    code, shown, record, said = running.wait()
    bench.restore()
    wrong = []
    if code != 0 or record is None:
        return f'exit code {code}: {said[-300:]}', 0, 0
    if record['ids'] != whole['ids']:
        wrong.append(f'other tokens: {record["ids"]}, not {whole["ids"]}')
    if shown != whole['text']:
        wrong.append(f'shown: {shown!r}, not {whole["text"]!r}')
    return '; '.join(wrong), record['failovers_total'], record['handbacks_total']


def run(bench, options, outcome):
    draw = random.Random(options.seed)
    prompts = read_prompts(options.prompts, 0) if options.prompts else [
        (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()]
    counts, handbacks, answers, whole_of = collections.Counter(), 0, 0, {}
    while sum(counts.values()) < options.cuts and answers < 2 * options.cuts:
        manner = ('reset', 'silence', 'killed')[answers % 3]
        prompt, sampling, strategy = draw.choice(prompts), draw.choice(SAMPLINGS), draw.choice(STRATEGIES)
        if (prompt, sampling) not in whole_of:
            whole_of[prompt, sampling] = bench.whole(prompt, sampling)
        wrong, failed_over, handed_back = one_cut(bench, draw, manner, prompt, whole_of[prompt, sampling], sampling, strategy)
        answers += 1
        counts[manner] += failed_over > 0
        handbacks += handed_back
        print(f'{answers}: {manner}, {strategy[1]}, T {sampling[1]}: {failed_over} failovers, {handed_back} handbacks'
              f'{": " + wrong if wrong else ""}', file=sys.stderr)
        if wrong:
            outcome.fail(f'answer {answers} ({manner}): {wrong}')
    outcome.figures.update({'answers': answers, 'cuts': dict(counts), 'handbacks': handbacks, 'wrong': len(outcome.failures)})
    if sum(counts.values()) < options.cuts:
        outcome.show_nothing(f'only {sum(counts.values())} of {options.cuts} answers were cut')
    if len([manner for manner in counts if counts[manner]]) < 3 or handbacks == 0:
        outcome.show_nothing('a manner of cutting, or the way back, never occurred')
    wrong = len(outcome.failures)
    outcome.hold('answers with another text', (wrong, wrong, wrong), 0, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cuts', type=int, default=50)
    parser.add_argument('--prompts', help='JSONL file with "prompt" [the demo\'s]')
    parser.add_argument('--max-tokens', type=int, default=40)
    parser.add_argument('--flash-bandwidth', default='60MB/s', help='of the emulated flash')
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args()
    outcome = Outcome('cuts')
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, options)
        try:
            run(bench, options, outcome)
        finally:
            bench.close()
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
