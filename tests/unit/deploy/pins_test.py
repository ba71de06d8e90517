#!/usr/bin/env python3
"""docker/verify-pins.sh against programs that stand in for the registries and NVIDIA's repository.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

DOCKER = Path(__file__).resolve().parents[3] / 'docker'
PINS = dict(re.findall(r'docker\.io/([\w./:-]+)@(sha256:[0-9a-f]{64})',
                       ''.join((DOCKER / name).read_text(encoding='utf-8') for name in ('Dockerfile', 'compose.yaml'))))
KEY = re.search(r'^ARG KEY=(\w+)', (DOCKER / 'cuda.Dockerfile').read_text(encoding='utf-8'), re.M)[1]


class Pins(unittest.TestCase):
    def verify(self, digests, key):
        """With these digests by image, and this key's fingerprint; None: nobody answers."""
        with tempfile.TemporaryDirectory() as folder:
            cases = ''.join(f'*/{name}) echo {digest} ;;\n' for name, digest in digests.items())
            programs = {'skopeo': f'for last; do :; done\ncase "$last" in\n{cases}*) exit 1 ;;\nesac',
                        'curl': 'exit 0' if key else 'exit 6', 'gpg': f'echo fpr:::::::::{key}:' if key else 'exit 2'}
            for name, text in programs.items():
                path = Path(folder) / name
                path.write_text(f'#!/bin/sh\n{text}\n', encoding='utf-8')
                path.chmod(0o755)
            done = subprocess.run([DOCKER / 'verify-pins.sh'], capture_output=True, text=True, check=False,
                                  env={**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}'})
        return done.returncode, done.stdout

    def test_pins_that_are_what_they_name(self):
        self.assertEqual(len(PINS), 3, 'Debian, Prometheus and Grafana')
        code, told = self.verify(PINS, KEY)
        self.assertEqual(code, 0, told)
        self.assertEqual(told.count('ok '), 5, 'Debian in two files, and the key')

    def test_an_image_or_a_key_that_is_another_is_named_with_both(self):
        other = 'sha256:' + '0' * 64
        for name, digest in PINS.items():
            code, told = self.verify({**PINS, name: other}, KEY)
            self.assertEqual(code, 1, told)
            self.assertRegex(told, rf'DIFFERENT .*{re.escape(name)} is {other}, pinned is {digest}')
        code, told = self.verify(PINS, 'F' * 40)
        self.assertEqual(code, 1, told)
        self.assertIn(f'is {"F" * 40}, pinned is {KEY}', told)

    def test_what_cannot_be_asked_for_is_not_taken_for_right(self):
        code, told = self.verify({}, None)
        self.assertEqual(code, 2, told)
        self.assertEqual(told.count('could not be checked'), 5)
        code, told = self.verify({next(iter(PINS)): 'sha256:' + '0' * 64}, None)
        self.assertEqual(code, 1, 'a pin that differs counts before what is unknown')


if __name__ == '__main__':
    unittest.main()
