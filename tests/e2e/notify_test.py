#!/usr/bin/env python3
"""The messages of both programs to systemd, received on this test's own NOTIFY_SOCKET.

  OUTRIDER_BIN=build/release/bin tests/e2e/notify_test.py

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import os
import signal
import socket
import tempfile
import time
import unittest

from programs import DRAFT, START_SECONDS, Edge, Server
from runner import run_tests

# deploy/systemd: WatchdogSec=30, and systemd expects messages more often than that.
WATCHDOG_SECONDS = 15


class NotifySocket:
    """Receives a program's messages to its service manager, as (state, seconds)."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.path = self._folder.name + '/notify'
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)

    def wait_for(self, state, seconds=START_SECONDS):
        """The states until this one comes, which is the last of them."""
        heard, give_up = [], time.monotonic() + seconds
        while time.monotonic() < give_up:
            self._socket.settimeout(max(0.01, give_up - time.monotonic()))
            with contextlib.suppress(TimeoutError):
                heard += self._socket.recv(4096).decode().split('\n')
                if state in heard:
                    return heard
        raise AssertionError(f'{state} was not heard within {seconds} s, only {heard}')

    def close(self):
        self._socket.close()
        self._folder.cleanup()


class NotifyTest(unittest.TestCase):
    def setUp(self):
        self.notify = NotifySocket()
        self.addCleanup(self.notify.close)
        self.environment = {'NOTIFY_SOCKET': self.notify.path}

    def assert_alive_then_stopping(self, process):
        for _ in range(2):  # repeatedly
            self.notify.wait_for('WATCHDOG=1', WATCHDOG_SECONDS)
        process.send_signal(signal.SIGTERM)
        self.notify.wait_for('STOPPING=1')

    def test_a_server_is_ready_alive_and_stopping(self):
        server = Server(environment=self.environment)
        self.addCleanup(server.stop)
        self.assertNotIn('STOPPING=1', self.notify.wait_for('READY=1'))
        self.assert_alive_then_stopping(server.process)
        self.assertEqual(server.stop(), 0)

    def test_a_server_without_a_model_is_never_ready(self):
        with self.assertRaises(RuntimeError):
            Server(model=tempfile.gettempdir(), environment=self.environment)
        with self.assertRaises(AssertionError):
            self.notify.wait_for('READY=1', 0.5)

    def test_a_server_that_is_stopped_in_its_tracks_is_not_alive(self):
        server = Server(environment=self.environment)
        self.addCleanup(server.stop)
        self.notify.wait_for('WATCHDOG=1', WATCHDOG_SECONDS)
        os.kill(server.process.pid, signal.SIGSTOP)
        time.sleep(0.5)
        with contextlib.suppress(AssertionError):  # messages in flight
            while True:
                self.notify.wait_for('WATCHDOG=1', 0.1)
        with self.assertRaises(AssertionError):
            self.notify.wait_for('WATCHDOG=1', 3)
        os.kill(server.process.pid, signal.SIGCONT)
        self.notify.wait_for('WATCHDOG=1', WATCHDOG_SECONDS)

    def test_an_edge_is_ready_alive_and_stopping(self):
        with Server() as server:
            edge = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', 0,
                        environment=self.environment)
            self.addCleanup(edge.process.communicate)
            self.addCleanup(edge.process.kill)
            self.notify.wait_for('READY=1')
            self.assert_alive_then_stopping(edge.process)


if __name__ == '__main__':
    run_tests()
