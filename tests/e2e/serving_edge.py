"""`outrider-edge serve` and its server, for tests of its clients.

SPDX-License-Identifier: Apache-2.0
"""
import unittest

from programs import DRAFT, Edge, Server, free_port, wait_until_served


class WithServingEdge(unittest.TestCase):
    flags = ()  # of the edge
    server_flags = ()
    server_class = Server

    @classmethod
    def setUpClass(cls):
        cls.metrics, cls.health = free_port(), free_port()
        cls.server = cls.server_class('--metrics-port', cls.metrics, '--http-port', cls.health, *cls.server_flags)
        port = free_port()
        cls.edge = Edge('serve', '--model', DRAFT, '--server', cls.server.address, '--port', port,
                        '--served-model-name', 'robot', '-n', '40', *cls.flags)
        cls.base = f'http://127.0.0.1:{port}'
        wait_until_served(cls.base)

    @classmethod
    def tearDownClass(cls):
        cls.edge.interrupt()
        cls.edge.wait()
        cls.server.stop()
