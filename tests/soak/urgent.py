#!/usr/bin/env python3
"""How long an urgent request waits for its first token while eight long answers have every place of the server.

  tests/soak/urgent.py [--model models/demo-target] [--requests 20]

At most a pass of the eight and 20 ms longer than on an idle server. The eight decode plainly, of one tenant with the
service tier `default`; the urgent ones come one after the other, of another with `priority`.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from edges import TARGET, Server, limit, new_key
from outcome import Outcome, bootstrap

LONG, SHORT = 900, 8  # tokens
LONG_BEGUN_SECONDS = 1
MOST_MS = 20  # beyond an idle server's and a pass


class Client:
    def __init__(self, server, key, tier):
        self.http = next(line for line in server.log if line.split()[:1] == ['openai']).split('http://')[1].strip()
        self.headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + key}
        self.tier, self.over = tier, False

    def ask(self, tokens):
        """Milliseconds to the first piece of text, and between those that follow."""
        connection, came = http.client.HTTPConnection(self.http, timeout=300), []
        begin = time.monotonic()
        connection.request('POST', '/v1/completions', json.dumps(
            {'prompt': 'Bring the red cup.', 'max_tokens': tokens, 'stream': True, 'ignore_eos': True, 'service_tier': self.tier}), self.headers)
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f'{response.status}: {response.read().decode()}')
        while not self.over and (line := response.readline()):
            if line.startswith(b'data: {'):
                came.append(1000 * (time.monotonic() - begin))
        connection.sock.close()
        return came[0], [later - earlier for earlier, later in zip(came, came[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--model', default=TARGET)
    parser.add_argument('--requests', type=int, default=20)
    options = parser.parse_args()
    outcome = Outcome('urgent')
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, 'keys')
        bulk, urgent = new_key(keys, 'bulk'), new_key(keys, 'urgent')
        limit(keys, 'priority')
        with Server('--http-port', '0', '--token-file', keys, model=options.model) as server:
            client = Client(server, urgent, 'priority')
            client.ask(SHORT)
            idle = [client.ask(SHORT)[0] for _ in range(options.requests)]
            others, gaps = [Client(server, bulk, 'default') for _ in range(8)], []
            threads = [threading.Thread(target=lambda one=one: gaps.extend(one.ask(LONG)[1])) for one in others]
            for thread in threads:
                thread.start()
            time.sleep(LONG_BEGUN_SECONDS)
            busy = [client.ask(SHORT)[0] for _ in range(options.requests)]
            if not all(thread.is_alive() for thread in threads):
                outcome.mark_inconclusive('one of the eight answers was over')
            for one in others:
                one.over = True
            for thread in threads:
                thread.join()
    a_pass = statistics.median(gaps)
    outcome.figures |= {'idle_ms': statistics.median(idle), 'pass_ms': a_pass}
    outcome.hold('ms to an urgent first token behind eight answers', bootstrap(busy, statistics.median),
                 statistics.median(idle) + a_pass + MOST_MS, at_least=False)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
