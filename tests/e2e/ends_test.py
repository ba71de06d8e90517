#!/usr/bin/env python3
"""Clients see that an answer is incomplete if a program ends before it.

A stream ends with an error event and without the last chunk of its body; a whole answer is 503 with Retry-After.

  OUTRIDER_BIN=build/release/bin tests/e2e/ends_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import signal
import socket
import unittest
import urllib.error
import urllib.request

from programs import DRAFT, FORGETFUL, Edge, Server, eventually, free_port, wait_until_served
from runner import run_tests

LAST_CHUNK = b'\r\n0\r\n\r\n'
SLOW = ('--pace-pass-ms', '100', *FORGETFUL)
SECONDS = 60


class Asked:
    """A request for a long answer, on a connection of its own."""

    def __init__(self, port, stream, version='1.1'):
        body = json.dumps({'prompt': 'Find the cup.', 'max_tokens': 300, 'ignore_eos': True, 'stream': stream, 'seed': 1}).encode()
        self.heard = b''
        self.was_reset = False
        self.connection = socket.create_connection(('127.0.0.1', port), timeout=SECONDS)
        self.connection.sendall(b'POST /v1/completions HTTP/%s\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s'
                                % (version.encode(), len(body), body))

    def read_until(self, wanted):
        while wanted not in self.heard:
            piece = self.connection.recv(65536)
            assert piece, self.heard
            self.heard += piece

    def read_all(self):
        try:
            while piece := self.connection.recv(65536):
                self.heard += piece
        except ConnectionResetError:
            self.was_reset = True
        self.connection.close()
        return self.heard


def wait_until_it_ends(port):
    """Waits until the program has heard the first signal."""
    def is_over():
        try:
            urllib.request.urlopen(f'http://127.0.0.1:{port}/health/ready', timeout=SECONDS).close()
        except urllib.error.HTTPError:
            return True
        return False
    eventually(is_over, 'it takes new requests after SIGTERM', SECONDS)


class Ends(unittest.TestCase):
    def programs(self, *flags):
        """Starts each program in turn: (its process, its HTTP port)."""
        port = free_port()
        with Server(*SLOW, '--http-port', port, *flags) as server:
            yield server.process, port
        port = free_port()
        with Server(*SLOW) as server:
            edge = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', port, *flags)
            try:
                wait_until_served(f'http://127.0.0.1:{port}')
                yield edge.process, port
            finally:
                edge.interrupt()
                edge.wait()

    def check(self, flags, signals):
        for process, port in self.programs(*flags):
            with self.subTest(program=process.args[-1], port=port):
                stream, old = Asked(port, True), Asked(port, True, '1.0')
                whole = Asked(port, False)
                stream.read_until(b'data: ')
                process.send_signal(signal.SIGTERM)
                for _ in range(signals - 1):
                    wait_until_it_ends(port)  # two at once are one
                    process.send_signal(signal.SIGTERM)
                heard = stream.read_all()
                self.assertIn(b'data: {"error":', heard, 'says why')
                self.assertIn(b'shutting down', heard)
                self.assertNotIn(LAST_CHUNK, heard, 'the body does not look complete')
                self.assertNotIn(b'[DONE]', heard)
                self.assertIsNone(re.search(rb'"finish_reason":"', heard))
                refused = whole.read_all()
                self.assertTrue(refused.startswith(b'HTTP/1.1 503 '), refused)
                self.assertRegex(refused, rb'\r\nRetry-After: \d+\r\n')
                self.assertIn(b'shutting down', refused)
                # HTTP/1.0 has no chunks: its body ends with the connection, so that must end with an error.
                heard = old.read_all()
                self.assertTrue(heard.startswith(b'HTTP/1.1 503 ') or old.was_reset, heard)
                self.assertEqual(process.wait(timeout=SECONDS), 0)

    def test_the_shutdown_timeout_cuts_answers(self):
        self.check(('--shutdown-timeout', '0.3'), signals=1)

    def test_a_second_signal_cuts_answers(self):
        self.check((), signals=2)


if __name__ == '__main__':
    run_tests(verbosity=2)
