#!/usr/bin/env python3
"""Both programs where the system grants little: tasks, descriptors, memory. They serve, or say in one sentence what is
lacking and end with 1; and they end on SIGTERM from their first line on.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/limits_test.py

SPDX-License-Identifier: Apache-2.0
"""
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, TARGET, ending_with_us, eventually, is_sanitized
from runner import run_tests

LACKING = 60  # seconds until a program serves or says what it lacks
UID = 61517  # nobody else's, as the system counts a user's tasks
OTHER_USER = ('setpriv', f'--reuid={UID}', '--clear-groups')


class Limited:
    """A program under prlimit and, if it is limited in tasks, as a user of its own."""

    def __init__(self, *arguments, limit, as_user=False):
        # A change of user clears the signal at the death of the parent, so it is asked for again.
        user = (*OTHER_USER, '--pdeathsig', 'KILL') if as_user else ()
        self.home = tempfile.TemporaryDirectory()
        os.chmod(self.home.name, 0o777)
        environment = {**CLEAN_ENVIRONMENT, 'HOME': self.home.name, 'XDG_CACHE_HOME': self.home.name}
        self.lines, self.ready = [], threading.Event()
        self.process = subprocess.Popen(
            ending_with_us(*user, 'prlimit', limit, *arguments), text=True, errors='backslashreplace', env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.errors = []
        self.readers = [threading.Thread(target=self._read, args=(self.process.stdout, self.lines), daemon=True),
                        threading.Thread(target=self._read, args=(self.process.stderr, self.errors), daemon=True)]
        for reader in self.readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line)
            if line.split()[:1] == ['ready']:
                self.ready.set()
        stream.close()

    def outcome(self):
        """'ready', or the exit code."""
        try:
            eventually(lambda: self.ready.is_set() or self.process.poll() is not None, seconds=LACKING)
        except AssertionError:
            return 'hangs'
        return 'ready' if self.ready.is_set() else self.process.poll()

    def url(self):
        words = [line.split() for line in self.lines]
        return next(found[1] for found in words if found[:1] in (['openai'], ['listening']) and found[1].startswith('http'))

    def end(self):
        """The exit code after SIGTERM."""
        try:
            if self.process.poll() is None:
                self.process.terminate()
            return self.process.wait(timeout=LACKING)
        finally:
            self.process.kill()
            self.process.wait()
            for reader in self.readers:
                reader.join(timeout=10)
            self.home.cleanup()


def ask(base):
    body = b'{"prompt": "Pick", "max_tokens": 3}'
    request = urllib.request.Request(f'{base}/v1/completions', body, {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


SERVER = (BIN / 'outrider-server', '--model', TARGET, '--port', '0', '--http-port', '0', '--metrics-port', '0', '--threads', '2')
OFFLINE = ('--model', DRAFT, '--target', TARGET, '--offline', '--threads', '2')
SERVING = (BIN / 'outrider-edge', 'serve', '--port', '0', *OFFLINE)
ANSWERING = (BIN / 'outrider-edge', 'run', '-p', 'Pick', '-n', '3', *OFFLINE)


SANITIZED = unittest.skipIf(is_sanitized(BIN / 'outrider-server'), 'a sanitizer maps much memory and opens pipes for itself')


class LittleIsGranted(unittest.TestCase):
    def check(self, command, limit, as_user=False):
        """Serves, answers and ends well; or says why not. Returns whether it serves."""
        program = Limited(*command, limit=limit, as_user=as_user)
        outcome = None
        try:
            outcome = program.outcome()
            if outcome == 'ready':
                self.assertIn(b'"text"', ask(program.url()))
        finally:
            code = program.end()
        errors = ''.join(program.errors)
        if outcome == 'ready':
            self.assertEqual(code, 0, errors)
            return True
        if outcome == 0:  # it answered and is done
            return True
        self.assertEqual(outcome, 1, f'{command[0].name} {limit}: {errors}')
        self.assertRegex(errors.splitlines()[-1], r'^outrider-\w+: .*(Remedy|emory)',
                         f'{limit}: {errors}')
        self.assertNotIn('terminate called', errors)
        return False

    @unittest.skipUnless(os.geteuid() == 0, 'only root may become a user of its own')
    def test_tasks(self):
        def runs(tasks, *command):
            return subprocess.run(ending_with_us(*OTHER_USER, 'prlimit', f'--nproc={tasks}', *command), check=False,
                                  capture_output=True).returncode == 0
        if not (runs(100, BIN / 'outrider-edge', '--version') and runs(100, 'cat', TARGET / 'config.json')):
            self.skipTest('another user cannot run the programs here')
        if runs(1, 'sh', '-c', 'true & wait $!'):
            self.skipTest('the system does not count tasks here')
        for command in (SERVER, SERVING, ANSWERING):
            served = [self.check(command, f'--nproc={tasks}', as_user=True) for tasks in (1, 2, 3, 4, 6, 9, 12, 16, 20, 25, 30, 40)]
            self.assertFalse(served[0])
            self.assertTrue(served[-1], 'forty tasks are enough')
            self.assertEqual(served, sorted(served), 'what is enough once is enough with more')

    @SANITIZED
    def test_descriptors(self):
        for command in (SERVER, SERVING, ANSWERING):
            served = [self.check(command, f'--nofile={files}:{files}') for files in (6, 8, 12, 16, 24, 32, 48, 64, 128)]
            self.assertFalse(served[0])
            self.assertTrue(served[-1])

    @SANITIZED
    def test_memory(self):
        for command in (SERVER, SERVING, ANSWERING):
            served = [self.check(command, f'--as={mib << 20}') for mib in (90, 110, 140, 170, 200, 260, 340, 8000)]
            self.assertFalse(served[0])
            self.assertTrue(served[-1])


class SignalsFromTheFirstLineOn(unittest.TestCase):
    def test_a_program_that_starts_ends(self):
        for command in ((*SERVER, '--device', 'host-cuda'), (*SERVING, '--device', 'host-cuda')):  # this takes a second to start
            for delay in (0.02, 0.1, 0.3):
                process = subprocess.Popen(ending_with_us(*command), env=CLEAN_ENVIRONMENT, stdin=subprocess.DEVNULL, text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                time.sleep(delay)  # no moment is awaited: it ends whenever the signal comes
                process.terminate()
                shown, _ = process.communicate(timeout=LACKING)
                ends = (0,) if 'ready' in shown.split() else (130, -signal.SIGTERM)
                self.assertIn(process.returncode, ends, f'{command[0].name} after {delay} s: {shown}')


if __name__ == '__main__':
    run_tests()
