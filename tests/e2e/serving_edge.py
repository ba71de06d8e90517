"""`outrider-edge serve` and its server, for tests of what speaks to it.

SPDX-License-Identifier: Apache-2.0
"""
import socket
import time
import unittest
import urllib.request

from programs import DRAFT, Edge, Server


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class WithServingEdge(unittest.TestCase):
    flags = ()  # of the edge

    @classmethod
    def setUpClass(cls):
        cls.metrics, cls.health = free_port(), free_port()
        cls.server = Server('--metrics-port', cls.metrics, '--http-port', cls.health)
        port = free_port()
        cls.edge = Edge('serve', '--model', DRAFT, '--server', cls.server.address, '--port', port,
                        '--served-model-name', 'robot', '-n', '40', *cls.flags)
        cls.base = f'http://127.0.0.1:{port}'
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            try:
                urllib.request.urlopen(f'{cls.base}/health', timeout=5).read()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError('outrider-edge serve did not start')

    @classmethod
    def tearDownClass(cls):
        cls.edge.interrupt()
        cls.edge.wait()
        cls.server.stop()
