#!/usr/bin/env python3
"""docker/verify-pins.sh against a program that stands in for the registries.

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


class Pins(unittest.TestCase):
    def verify(self, digests):
        """With these digests by image; of others nobody answers."""
        with tempfile.TemporaryDirectory() as folder:
            cases = ''.join(f'*/{name}) echo {digest} ;;\n' for name, digest in digests.items())
            skopeo = Path(folder) / 'skopeo'
            skopeo.write_text(f'#!/bin/sh\nfor last; do :; done\ncase "$last" in\n{cases}*) exit 1 ;;\nesac\n', encoding='utf-8')
            skopeo.chmod(0o755)
            done = subprocess.run([DOCKER / 'verify-pins.sh'], capture_output=True, text=True, check=False,
                                  env={**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}'})
        return done.returncode, done.stdout

    def test_pins_that_are_what_they_name(self):
        self.assertEqual(len(PINS), 3, 'Debian, Prometheus and Grafana')
        code, told = self.verify(PINS)
        self.assertEqual(code, 0, told)
        self.assertEqual(told.count('ok '), 4, 'Debian in two files')

    def test_an_image_that_is_another_is_named_with_both(self):
        other = 'sha256:' + '0' * 64
        for name, digest in PINS.items():
            code, told = self.verify({**PINS, name: other})
            self.assertEqual(code, 1, told)
            self.assertRegex(told, rf'DIFFERENT .*{re.escape(name)} is {other}, pinned is {digest}')

    def test_what_cannot_be_asked_for_is_not_taken_for_right(self):
        code, told = self.verify({})
        self.assertEqual(code, 2, told)
        self.assertEqual(told.count('could not be checked'), 4)
        code, told = self.verify({next(iter(PINS)): 'sha256:' + '0' * 64})
        self.assertEqual(code, 1, 'a pin that differs counts before what is unknown')


if __name__ == '__main__':
    unittest.main()
