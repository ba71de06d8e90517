#!/usr/bin/env python3
"""Networks of clients take turns at a server and an edge: one that sends much keeps no other waiting.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/turns_test.py

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import unittest
import urllib.request
from pathlib import Path

from programs import DRAFT, FORGETFUL, Edge, Server, eventually, free_port, wait_until_served
from runner import SKIPPED, run_tests

PACED = ('--pace-pass-ms', '50', *FORGETFUL)  # an answer lasts longer than all clients take to ask
IN_NETWORK = 'OUTRIDER_TEST_NETWORK'  # set in the network namespace, in which this file runs again


def ask(host, port, source, tokens, timeout=120):
    """The status of an answer of so many tokens."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout, source_address=(source, 0))
    connection.request('POST', '/v1/completions', json.dumps({'prompt': 'Pick', 'max_tokens': tokens, 'ignore_eos': True}),
                       {'Content-Type': 'application/json', 'Host': 'localhost'})
    status = connection.getresponse()
    status.read()
    connection.close()
    return status.status


def order_of(port, askers, pending):
    """Asks from each (name, source, tokens) when those before it run or wait, as pending() counts them. The (name, status)
    of each in the order of their ends."""
    done, threads = [], []

    def one(name, source, tokens):
        done.append((name, ask('127.0.0.1', port, source, tokens)))

    for number, asker in enumerate(askers, start=1):
        threads.append(threading.Thread(target=one, args=asker))
        threads[-1].start()
        eventually(lambda: done or pending() >= number)
        assert not done, f'{done} ended before {asker[0]} waited'
    for thread in threads:
        thread.join()
    return done


def port_of(server):
    line = next(line.split() for line in server.log if line.split()[:1] == ['openai'])
    return int(line[1].rsplit(':', 1)[1])


class PlacesGoRound(unittest.TestCase):
    ASKERS = [(f'first {number}', '127.0.0.2', 40) for number in range(5)] + [('other', '127.0.0.3', 5)]

    def check(self, done, places):
        names = [name for name, _ in done]
        self.assertEqual({status for _, status in done}, {200})
        self.assertLessEqual(names.index('other'), places, f'those that had a place, then the other: {names}')

    def test_at_a_server_with_one_place_and_two(self):
        for places in (1, 2):
            with Server('--http-port', '0', '--metrics-port', '0', '--draft-source', 'none', *PACED,
                        '--max-concurrent-sessions', str(places)) as server:
                self.check(order_of(port_of(server), self.ASKERS, lambda: server.metric('num_requests_running')
                                    + server.metric('num_requests_waiting')), places)

    def test_at_an_edge(self):
        port = free_port()
        server = Server('--draft-source', 'none', *PACED)
        self.addCleanup(server.stop)
        edge = Edge('serve', '--model', DRAFT, '--server', server.address, '--strategy', 'ar', '--port', str(port))

        def pending():
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/link', timeout=30) as page:
                link = json.load(page)
            return link['waiting'] + (1 if link['running'] else 0)

        try:
            wait_until_served(f'http://127.0.0.1:{port}')
            self.check(order_of(port, self.ASKERS, pending), 1)
        finally:
            edge.process.terminate()
            edge.wait()


class ANetworkIsOneClient(unittest.TestCase):
    """A host of IPv6 has a /64 of addresses."""

    def setUp(self):
        if IN_NETWORK in os.environ:
            return
        again = subprocess.run(['unshare', '--user', '--map-root-user', '--net', sys.executable, __file__, self.id().split('.', 1)[1]],
                               env={**os.environ, IN_NETWORK: '1'}, capture_output=True, text=True, timeout=280)
        if 'unshare: ' in again.stderr:
            self.skipTest(again.stderr.strip())
        if again.returncode == SKIPPED:
            self.skipTest(again.stderr.strip())
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.skipTest('done in a network of its own')

    @unittest.skipUnless(shutil.which('ip'), 'needs ip (Debian package iproute2)')
    def test_addresses_of_one_network_leave_others_their_turn(self):
        off = Path('/proc/sys/net/ipv6/conf/all/disable_ipv6')
        if not off.exists() or off.read_text(encoding='utf-8').strip() != '0':
            self.skipTest('this system has no IPv6')
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
        sources = [f'fd00:1::{number}' for number in range(1, 8)]
        for address in (*sources, 'fd00:2::1'):
            subprocess.run(['ip', '-6', 'addr', 'add', f'{address}/64', 'dev', 'lo', 'nodad'], check=True)
        with Server('--host', '::', '--insecure', '--http-port', '0', '--draft-source', 'none', *PACED,
                    '--max-concurrent-sessions', '1', '--max-queued-requests', '4') as server:
            port, statuses, done = port_of(server), {}, []

            def one(source):
                statuses[source] = ask(sources[0], port, source, 40)
                done.append(source)

            threads = [threading.Thread(target=one, args=(source,)) for source in sources]
            for thread in threads:
                thread.start()
            eventually(lambda: 429 in statuses.values(), lambda: f'the queue is not full: {statuses}')
            self.assertEqual(ask(sources[0], port, 'fd00:2::1', 3), 200)
            self.assertLessEqual(len([source for source in done if statuses[source] == 200]), 2, 'it had the next turn')
            for thread in threads:
                thread.join()


if __name__ == '__main__':
    run_tests()
