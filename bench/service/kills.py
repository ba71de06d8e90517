#!/usr/bin/env python3
"""Kills a server at random moments while eight edges decode, starts it again on the same port, and holds
every answer against an undisturbed one: the same tokens, none lost, none repeated.

  bench/service/kills.py --kills 100 [--sessions 8] [--prompts FILE.jsonl] [--seed 0]

Nothing is shown (exit code 4) unless there were as many reconnects as kills.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'offline'))
from edges import DRAFT, ROOT, Server, edge, read_prompts  # noqa: E402
from outcome import Outcome  # noqa: E402

PACED = ('--pace-pass-ms', '4', '--max-concurrent-sessions', '32')
WAYS = [('--strategy', strategy, '--temp', temperature, '--seed', '4')
        for strategy in ('ar', 'sd', 'mirror') for temperature in ('0', '0.8')]
UP_SECONDS = (0.3, 1.5)  # from a start to the next kill


class Answers:
    """Edges that answer one prompt after the other until they are told to stop."""

    def __init__(self, address, prompts, options):
        self.common = ('run', '--model', DRAFT, '--json', '-n', options.max_tokens, '--threads', '1')
        self.address, self.prompts, self.expected = address, prompts, {}
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.count, self.reconnects, self.wrong = 0, 0, []
        self.threads = [threading.Thread(target=self.work, args=(random.Random(options.seed + i),))
                        for i in range(options.sessions)]

    def expect_all(self):
        """What an undisturbed server gives; it does not hang on the strategy."""
        for prompt in self.prompts:
            for way in WAYS[:2]:
                whole = edge(*self.common, *way, '--server', self.address, '-p', prompt)
                self.expected[prompt, way[3]] = whole.json['ids']

    def work(self, draw):
        while not self.stopping.is_set():
            prompt, way = draw.choice(self.prompts), draw.choice(WAYS)
            got = edge(*self.common, *way, '--server', self.address, '--reconnect-timeout', '60',
                       '-p', prompt)
            with self.lock:
                self.count += 1
                if got.code != 0 or got.json is None:
                    self.wrong.append(f'{way}: exit code {got.code}: {got.err[-300:]}')
                    continue
                self.reconnects += got.json['reconnects']
                if got.json['ids'] != self.expected[prompt, way[3]]:
                    self.wrong.append(f'{way}: other tokens: {got.json["ids"]}')


def run(options, outcome):
    draw = random.Random(options.seed)
    prompts = read_prompts(options.prompts, 6) if options.prompts else [
        (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip(), 'Bring the green cup.', 'Why is the sky blue?']
    server = Server(*PACED)
    answers = Answers(server.address, prompts, options)
    answers.expect_all()
    for thread in answers.threads:
        thread.start()
    try:
        for number in range(options.kills):
            time.sleep(draw.uniform(*UP_SECONDS))
            server.kill()
            time.sleep(draw.choice((0, 0.2)))
            server = Server(*PACED, port=server.port)
            print(f'{number + 1}/{options.kills} kills, {answers.count} answers, {answers.reconnects} reconnects, '
                  f'{len(answers.wrong)} wrong', file=sys.stderr, end='\r')
    finally:
        answers.stopping.set()
        for thread in answers.threads:
            thread.join()
        server.stop()
        print(file=sys.stderr)
    outcome.figures.update({'kills': options.kills, 'sessions': options.sessions, 'answers': answers.count,
                            'reconnects': answers.reconnects, 'seed': options.seed})
    for why, times in collections.Counter(answers.wrong).items():
        outcome.fail(f'{times} x {why}')
    wrong = len(answers.wrong)
    if answers.reconnects < options.kills:
        outcome.show_nothing(f'{options.kills} kills led to {answers.reconnects} reconnects only')
    outcome.hold('answers with another text, or none', (wrong, wrong, wrong), 0, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kills', type=int, default=100)
    parser.add_argument('--sessions', type=int, default=8)
    parser.add_argument('--prompts', help='JSONL file with "prompt" [three of our own]')
    parser.add_argument('--max-tokens', type=int, default=120)
    parser.add_argument('--seed', type=int, default=0)
    outcome = Outcome('kills')
    run(parser.parse_args(), outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
