#!/usr/bin/env python3
"""Does a server that works for an hour grow? Eight clients ask without a pause, a third of them with a draft, and some leave
in the middle.

  tests/soak/growth.py [--minutes 60] [--clients 8] [--requests 48]

The same requests come again and again in an order that is drawn, so that what a server keeps of earlier ones (prompts,
texts for look-up, what drafts are worth) is there after a tenth of the time. From then on its resident memory is read
twelve times a minute; growth is the median of the last tenth over that of the second. Each answer has to be the first
one to that request, which came alone.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import random
import statistics
import sys
import threading
import time

from company import Answer, Clients, draw_request
from edges import Server
from outcome import Outcome, bootstrap
from storm import resident_mib

SECONDS_PER_SAMPLE = 5
MOST_GROWTH_MIB = 2  # an hour
KINDS = ('plain', 'draft', 'leaves')


class Asking:
    """Clients that ask until stop()."""

    def __init__(self, clients, requests, count, outcome):
        self.clients, self.requests, self.outcome = clients, requests, outcome
        self.expected = [clients.complete(request) for request in requests]
        self.answers, self.lock, self.over = 0, threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(random.Random(number),)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def _ask(self, random_):
        while not self.over.is_set():
            number = random_.randrange(len(self.requests))
            kind = random_.choices(KINDS, (8, 4, 1))[0]
            try:
                answer = self.clients.ask(self.requests[number], kind)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                answer, kind = Answer(refusal=repr(error)), f'{kind}, no answer'
            with self.lock:
                self.answers += 1
                if kind != 'leaves' and answer != self.expected[number]:
                    self.outcome.fail(f'request {number} ({kind}): alone {self.expected[number]}, now {answer}')

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--minutes', type=float, default=60)
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--requests', type=int, default=48)
    options = parser.parse_args()
    outcome = Outcome('growth')
    random_ = random.Random(1)
    requests = [draw_request(random_, number, 'plain') for number in range(options.requests)]
    for request in requests:
        del request['model']  # this server has no levels
    with Server('--http-port', '0', '--kv-cache-memory', '64M', '--max-concurrent-sessions', options.clients) as server:
        asking = Asking(Clients(server), requests, options.clients, outcome)
        samples, end = [], time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            time.sleep(SECONDS_PER_SAMPLE)
            if server.process.poll() is not None:
                outcome.fail(f'the server ended with exit code {server.process.returncode}')
                break
            samples.append(resident_mib(server.process, 'VmRSS'))
        asking.stop()
    tenth = len(samples) // 10
    if tenth < 2:
        outcome.mark_inconclusive(f'{options.minutes} minutes are too few for two samples a tenth')
        return outcome.finish()
    pairs = list(zip(samples[tenth:2 * tenth], samples[-tenth:]))
    outcome.figures |= {'minutes': options.minutes, 'answers': asking.answers,
                        'resident_mib': [round(samples[len(samples) * i // 20], 2) for i in range(20)] + [round(samples[-1], 2)]}
    growth = bootstrap(pairs, lambda drawn: statistics.median(b for _, b in drawn) - statistics.median(a for a, _ in drawn))
    outcome.hold('MiB of growth', growth, MOST_GROWTH_MIB, at_least=False)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
