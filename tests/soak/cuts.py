#!/usr/bin/env python3
"""Cuts the link to a real server at random places of an answer, and compares what the user saw with an
undisturbed answer: the same tokens, none lost, none repeated.

  tests/soak/cuts.py --cuts 50 [--prompts FILE.jsonl] [--seed 0]

Each cut is one of three manners: connections reset, silence on an open link, the server killed. Every other link
is restored during the answer. Places alternate: either drawn between the first verdict and the last token, or
one of these: between two tokens of one character (in random text, of a high temperature), inside a
stop string that the answer has begun, and before the token that ends it. What had arrived at the moment of a
cut determines where it fell.
Inconclusive (exit code 4) unless every manner cut an answer, some cut fell on each kind of place, and some
answers had a failback.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import random
import sys
import tempfile
import time
from pathlib import Path

from edges import DRAFT, ROOT, Server, StampedEdge, TARGET, edge, free_port, least_budget, pack, read_prompts
from outcome import Outcome
from places import ANYWHERE, AT_END, IN_STOP, KINDS, MID_CHARACTER, TokenBytes, kind_of, mid_characters, tokens_shown_by
from tcp_link import TcpLink

PASS_MS = 60
PACED = ('--pace-pass-ms', PASS_MS)
ONE_TOKEN_LATER = 1.5 * PASS_MS / 1e3  # after the shown text: for a token without text of its own
STOP_TOKENS = 3
SPARE_MIB = 8  # difference between strategies
SAMPLINGS = (('--temp', '0'), ('--temp', '0.8', '--seed', '4'))
WILD = 3  # temperature of text whose bytes are no complete characters
STRATEGIES = (('--strategy', 'ar'), ('--strategy', 'sd'), ('--strategy', 'mirror'))
MANNERS = ('reset', 'silence', 'killed')
QUICK = ('--failover-after', '1', '--failback-after', '0.3', '--reconnect-timeout', '3')


class Bench:
    """A server that can be killed and restarted, a link to it, and this device's pack."""

    def __init__(self, folder, options):
        self.common = ('--model', DRAFT, '-n', options.max_tokens, '-c', 512, '--json')
        target = pack(TARGET, 'auto', Path(folder) / 'target.pack')
        budget = least_budget(target, *self.common, '-p', 'x') + SPARE_MIB
        self.offline = ('--target', target, '--memory-budget', f'{budget}MiB', '--flash-bandwidth', options.flash_bandwidth)
        self.server = Server(*PACED, port=free_port())
        self.link = TcpLink(self.server.port)

    def whole(self, prompt, flags):
        """The undisturbed answer of this device alone."""
        return edge('run', *self.offline[:2], *self.common, *flags, '--strategy', 'ar', '-p', prompt).json

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


class Case:
    """One answer to cut, and where: some seconds after this much text is shown."""

    def __init__(self, prompt, sampling, strategy, stop=None):
        self.prompt, self.sampling, self.strategy, self.stop = prompt, sampling, strategy, stop
        self.place, self.later = 0, 0

    def flags(self):
        return (*self.sampling, *(('--stop', self.stop) if self.stop else ()))


class Cases:
    """Draws cases, each with a kind of place, and holds their undisturbed answers."""

    def __init__(self, bench, options):
        self.bench, self.draw = bench, random.Random(options.seed)
        self.tokens = TokenBytes(TARGET)
        self.short = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
        self.prompts = read_prompts(options.prompts, 0) if options.prompts else [self.short]
        self.answers = {}

    def whole(self, case):
        key = (case.prompt, case.flags())
        if key not in self.answers:
            self.answers[key] = self.bench.whole(case.prompt, case.flags())
        return self.answers[key]

    def make(self, kind):
        return {MID_CHARACTER: self._mid_character, IN_STOP: self._in_stop, AT_END: self._at_end, ANYWHERE: self._anywhere}[kind]()

    def _anywhere(self):
        case = Case(self.draw.choice(self.prompts), self.draw.choice(SAMPLINGS), self.draw.choice(STRATEGIES))
        case.place = self.draw.randrange(0, max(1, len(self.whole(case)['text'])))
        if case.place == 0:
            case.later = self.draw.uniform(0, 0.3)
        return case

    def _mid_character(self):
        while True:
            sampling = ('--temp', WILD, '--seed', self.draw.randrange(1000))
            case = Case(self.draw.choice(self.prompts), sampling, STRATEGIES[0])
            ids = self.whole(case)['ids']
            places = [n for n in mid_characters(self.tokens, ids) if n > 1]
            if places:
                return self._behind(case, ids, self.draw.choice(places) - 1)

    def _in_stop(self):
        case = Case(self.draw.choice(self.prompts), self.draw.choice(SAMPLINGS), STRATEGIES[0])
        whole = self.whole(case)
        places = []
        for n in range(2, len(whole['ids']) - STOP_TOKENS):
            before, through = (self.tokens.decode(whole['ids'][:end])[0] for end in (n, n + STOP_TOKENS))
            stop = through[len(before):]
            if stop.strip() and through.find(stop) == len(before):
                places.append((n, stop))
        n, case.stop = self.draw.choice(places)
        return self._behind(case, whole['ids'], n)

    def _behind(self, case, ids, n):
        """One token after the first n, which are shown."""
        case.place, case.later = len(self.tokens.decode(ids[:n])[0]), ONE_TOKEN_LATER
        return case

    def _at_end(self):
        case = Case(self.short, self.draw.choice(SAMPLINGS), STRATEGIES[0])
        case.place = len(self.whole(case)['text'])
        return case


def one_cut(bench, cases, manner, case):
    """One answer, cut once. Returns (what is wrong with it or '', the kind of place, its failovers, its failbacks)."""
    whole = cases.whole(case)
    running = bench.start(case.prompt, *case.flags(), *case.strategy)
    running.wait_until(lambda: len(running.text()) >= case.place, 60)
    time.sleep(case.later)
    moment = time.monotonic()
    bench.cut(manner)
    if cases.draw.random() < 0.5:
        time.sleep(cases.draw.uniform(0.1, 0.6))
        bench.restore()
    code, shown, record, said = running.wait()
    bench.restore()
    wrong = []
    if code != 0 or record is None:
        return f'exit code {code}: {said[-300:]}', ANYWHERE, 0, 0
    if record['ids'] != whole['ids']:
        wrong.append(f'other tokens: {record["ids"]}, not {whole["ids"]}')
    if shown.rstrip('\n') != whole['text'].rstrip('\n'):  # the JSON is on its own line
        wrong.append(f'shown: {shown!r}, not {whole["text"]!r}')
    arrived = tokens_shown_by(cases.tokens, record, running.out, moment)
    kind = kind_of(cases.tokens, whole, arrived, case.stop)
    return '; '.join(wrong), kind, record['failovers_total'], record['failbacks_total']


def run(bench, options, outcome):
    cases = Cases(bench, options)
    manners, places, failbacks, answers = collections.Counter(), collections.Counter(), 0, 0
    while manners.total() < options.cuts and answers < 2 * options.cuts:
        manner, case = MANNERS[answers % len(MANNERS)], cases.make(KINDS[answers % len(KINDS)])
        wrong, kind, failed_over, failed_back = one_cut(bench, cases, manner, case)
        answers += 1
        manners[manner] += failed_over > 0
        places[kind] += failed_over > 0
        failbacks += failed_back
        print(f'{answers}: {manner}, {kind}, {case.strategy[1]}, T {case.sampling[1]}: {failed_over} failovers, {failed_back} failbacks'
              f'{": " + wrong if wrong else ""}', file=sys.stderr)
        if wrong:
            outcome.fail(f'answer {answers} ({manner}, {kind}): {wrong}')
    outcome.figures.update({'answers': answers, 'cuts': dict(manners), 'places': dict(places), 'failbacks': failbacks,
                            'wrong': len(outcome.failures)})
    if manners.total() < options.cuts:
        outcome.mark_inconclusive(f'only {manners.total()} of {options.cuts} answers were cut')
    never = [name for name in (*MANNERS, *KINDS) if manners[name] + places[name] == 0] + ([] if failbacks else ['the failback'])
    if never:
        outcome.mark_inconclusive(f'never occurred: {", ".join(never)}')
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
