#!/usr/bin/env python3
"""The cache of converted weights of a real model: complete, incomplete, outdated or damaged at the next start.

  OUTRIDER_BIN=build/release/bin tests/e2e/weights_test.py

Small models are converted at every start, so this takes SmolLM2, which ./run model smollm2 fetches.
SPDX-License-Identifier: Apache-2.0
"""
import os
import tempfile
import unittest
from pathlib import Path

from programs import ROOT, edge
from runner import run_tests

MODEL = ROOT / 'models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
PAGE = 4096  # where the first layer's weights begin
KEPT, ANEW = 'weights: kept converted weights', 'weights: converting weights again'


@unittest.skipUnless(MODEL.exists(), f'{MODEL} is not there; ./run model smollm2 fetches it')
class Cache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.text, cls.first = cls.answer()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def answer(cls, dtype='int4'):
        """A short answer, and the line at the start about its weights."""
        done = edge('run', '--target', MODEL, '--dtype', dtype, '--cache-dir', cls.folder.name, '--temp', 0, '-c', 128,
                    '--prompt', 'Name a colour.', '--max-tokens', 6)
        assert done.code == 0, done.err
        return done.out, [line for line in done.err.splitlines() if line.startswith('weights:')]

    def file(self, dtype='int4'):
        return next(Path(self.folder.name).glob(f'*-{dtype}.*'))

    def expect_made_anew(self, why):
        """The next start says why, gives the same text, and repairs the file for the start after it."""
        text, said = self.answer()
        self.assertEqual(text, self.text)
        self.assertEqual(len(said), 2, said)
        self.assertIn(ANEW, said[0])
        self.assertIn(why, said[0])
        self.assertIn(KEPT, said[1])
        self.assertEqual(self.answer(), (self.text, []))

    def test_a_second_start_finds_the_weights(self):
        self.assertEqual(len(self.first), 1, self.first)
        self.assertIn(KEPT, self.first[0])
        self.assertEqual(self.answer(), (self.text, []))

    def test_a_torn_file_is_made_anew(self):
        os.truncate(self.file(), self.file().stat().st_size // 2)
        self.expect_made_anew(self.file().name)

    def test_a_flipped_bit_of_the_weights_is_noticed(self):
        with open(self.file(), 'r+b') as file:
            file.seek(PAGE)
            byte = file.read(1)[0]
            file.seek(PAGE)
            file.write(bytes([byte ^ 1]))
        self.expect_made_anew('damaged')

    def test_a_file_of_another_arithmetic_is_stale(self):
        self.answer('bf16')
        self.file('bf16').replace(self.file())
        self.expect_made_anew('it has other weights or another kernel version')


if __name__ == '__main__':
    run_tests()
