#!/usr/bin/env python3
"""The parts of models in models/: exits that a committed command cuts, and folders that are no whole model.

  OUTRIDER_BIN=build/release/bin tests/e2e/recipes_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, ending_with_us
from runner import run_tests

MODELS = ROOT / 'models'


def run(program, *arguments):
    return subprocess.run(ending_with_us(BIN / program, *arguments), capture_output=True, text=True, check=False,
                          timeout=60, env=CLEAN_ENVIRONMENT)


@unittest.skipUnless((BIN / 'outrider-train').exists(), 'outrider-train is not part of this build')
class CutExits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / 'exits'

    def cut(self, exits, *flags):
        return run('outrider-train', 'cut-exits', '--exits', exits, *flags, '--out', self.out)

    def test_the_command_of_the_recipe_makes_the_committed_files(self):
        """It leaves the committed ones as they are."""
        flags = ('--layers', '16,20,24', '--chosen', '20,24')
        self.assertIn('cut-exits --exits trained ' + ' '.join(flags), (MODELS / 'README.md').read_text(encoding='utf-8'))
        done = self.cut(MODELS / 'qwen-coder-exits', *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ('adapters.json', 'adapters.safetensors'):
            self.assertEqual((self.out / name).read_bytes(), (MODELS / 'qwen-coder-exits' / name).read_bytes(), name)

    def test_what_stays_is_as_it_was(self):
        done = self.cut(MODELS / 'smollm2-exits', '--layers', '12,14,24')
        self.assertEqual(done.returncode, 0, done.stderr)
        before = json.loads((MODELS / 'smollm2-exits/adapters.json').read_text(encoding='utf-8'))
        after = json.loads((self.out / 'adapters.json').read_text(encoding='utf-8'))
        self.assertEqual(after['exits'], [one for one in before['exits'] if one['layer'] in (12, 14, 24)])
        self.assertEqual((before['chosen'], after['chosen']), ([19, 24], [24]))

    def test_what_makes_no_sense_is_refused_by_name(self):
        exits = MODELS / 'smollm2-exits'
        for flags, word in ((('--layers', '12,13'), 'no adapter after layer 13'),
                            (('--layers', '12,14'), 'none of those that auto takes stays'),
                            (('--layers', '12,14', '--chosen', '24'), 'no adapter after layer 24')):
            done = self.cut(exits, *flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertFalse(self.out.exists())

    def test_the_trained_exits_are_not_written_over(self):
        self.cut(MODELS / 'smollm2-exits')
        before = (self.out / 'adapters.safetensors').read_bytes()
        done = self.cut(self.out, '--layers', '24')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('is --exits, whose files would be lost', done.stderr)
        self.assertEqual((self.out / 'adapters.safetensors').read_bytes(), before)


class PartsOfModels(unittest.TestCase):
    """A folder that holds a part of a model is named, with what makes a model of it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_every_program_says_what_to_do_with_it(self):
        ask = ('-p', 'Find the cup.', '-n', '3')
        for folder, remedy in (('smollm2-draft', 'outrider-train compose --target TARGET --layers'), ('smollm2-exits', "name the target's folder"),
                               ('levels', 'name the folder or the GGUF file of a whole model')):
            part = MODELS / folder
            for command in (('outrider-edge', 'run', '--target', TARGET, '--model', part, *ask),
                            ('outrider-edge', 'run', '--target', part, '--model', DRAFT, *ask),
                            ('outrider-edge', 'run', '--target', TARGET, '--tokenizer', part, *ask),
                            ('outrider-edge', 'pack', '--model', part, '--out', f'{self.folder}/model.pack'),
                            ('outrider-server', '--model', part, '--port', '0'),
                            ('outrider-server', '--model', TARGET, '--draft-model', part, '--port', '0'),
                            ('outrider-bench', 'rows', '--model', part),
                            ('outrider-train', 'inflate', '--model', part, '--to-bytes', '1MB', '--out', f'{self.folder}/model')):
                if not (BIN / command[0]).exists():
                    continue
                with self.subTest(' '.join(map(str, command))):
                    done = run(*command)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn('Remedy: ', done.stderr)
                    self.assertIn(remedy, done.stderr)


if __name__ == '__main__':
    run_tests(verbosity=2)
