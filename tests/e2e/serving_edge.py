"""`outrider-edge serve` and its server, for tests of its clients.

SPDX-License-Identifier: Apache-2.0
"""
import tempfile
import unittest
from pathlib import Path

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


class WithBothPrograms(unittest.TestCase):
    """A server and an edge at it, which both serve OpenAI's routes: `bases`, the server's first."""
    template = ''  # the text of a chat template that both write chats by; empty: the target's own

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        flags = ('--served-model-name', 'robot')
        if cls.template:
            file = Path(folder.name) / 'chat.jinja'
            file.write_text(cls.template, encoding='utf-8')
            flags += ('--chat-template', file)
        http, port = free_port(), free_port()
        cls.server = Server('--http-port', http, *flags)
        cls.addClassCleanup(cls.server.stop)
        cls.edge = Edge('serve', '--model', DRAFT, '--server', cls.server.address, '--port', port)
        cls.addClassCleanup(cls.edge.process.kill)
        cls.bases = (f'http://127.0.0.1:{http}', f'http://127.0.0.1:{port}')
        wait_until_served(cls.bases[1])
