"""Edges that answer one prompt after the other. Each answer is compared with that of an idle server.

SPDX-License-Identifier: Apache-2.0
"""
import random
import threading

from edges import DRAFT, Edge

WAYS = [('--strategy', strategy, '--temp', temperature, '--seed', '4')
        for strategy in ('ar', 'sd', 'mirror') for temperature in ('0', '0.8')]
ANSWER_SECONDS = 300
RECONNECT_SECONDS = 120  # longer than any fault lasts


class Load:
    """`sessions` threads that ask until they are stopped. Their results can be read at any time: `count` answers,
    `reconnects`, and a line for each of the `wrong` ones."""

    def __init__(self, address, prompts, sessions, max_tokens, seed, key, *flags):
        """key: the file with the key of all edges, except those to which begin() gives another one."""
        self.address, self.prompts, self.key = address, prompts, key
        self.common = ('run', '--model', DRAFT, '--json', '-n', max_tokens, '--threads', '1', '--reconnect-timeout', RECONNECT_SECONDS,
                       *flags)
        self.expected = {}
        self.stopping, self.lock = threading.Event(), threading.Lock()
        self.count, self.reconnects, self.wrong = 0, 0, []
        self.threads = [threading.Thread(target=self._work, args=(random.Random(seed + i),)) for i in range(sessions)]

    def start(self):
        """First the reference of an undisturbed server, which does not depend on the strategy."""
        for prompt in self.prompts:
            for way in WAYS[:2]:
                self.expected[prompt, way[3]] = self.begin(prompt, way).wait().json['ids']
        for thread in self.threads:
            thread.start()

    def begin(self, prompt, way, key=None):
        return Edge(*self.common, *way, '--token-file', key or self.key, '--server', self.address, '-p', prompt)

    def end(self, asked, prompt, way):
        """Waits for an edge of begin(), and judges its answer."""
        got = asked.wait(seconds=ANSWER_SECONDS)
        with self.lock:
            self.count += 1
            if got.code != 0 or got.json is None:
                self.wrong.append(f'{way}: exit code {got.code}: {got.err[-300:]}')
                return
            self.reconnects += got.json['reconnects']
            if got.json['ids'] != self.expected[prompt, way[3]]:
                self.wrong.append(f'{way}: other tokens: {got.json["ids"]}')

    def draw(self, source):
        return source.choice(self.prompts), source.choice(WAYS)

    def _work(self, source):
        while not self.stopping.is_set():
            prompt, way = self.draw(source)
            self.end(self.begin(prompt, way), prompt, way)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            if thread.is_alive():
                thread.join()
