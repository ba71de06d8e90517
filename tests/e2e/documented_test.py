#!/usr/bin/env python3
"""The commands that README.md and the pages print are ones that the programs take, and those of outrider-bench run.

  OUTRIDER_BIN=build/release/bin tests/e2e/documented_test.py

SPDX-License-Identifier: Apache-2.0
"""
import functools
import json
import os
import pty
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, ROOT

PAGES = ('README.md', 'CONTRIBUTING.md', '*/README.md', 'docs/*.md')
PROGRAM = re.compile(r'outrider-(?:edge|server|link|bench|train)$')
MISSED, INCONCLUSIVE = 1, 4  # bars, which answers as short as here do not decide


def printed_commands(text):
    """Those of the page's code blocks, as lists of words: comments left out, lines that go on joined."""
    for block in re.findall(r'^ *```\w*\n(.*?)^ *```', text, re.M | re.S):
        for line in block.replace('\\\n', ' ').splitlines():
            if not PROGRAM.match(line.split(' ')[0]):
                continue
            words = shlex.split(line, comments=True)
            if '..' not in words:  # more flags, which the reader has
                yield words


def run(words, **options):
    return subprocess.run([BIN / words[0], *words[1:]], capture_output=True, text=True, check=False,
                          env=CLEAN_ENVIRONMENT, **options)


@functools.cache
def required_flags(*command):
    """Each as the names that it has."""
    lines = run([*command, '--help']).stdout.splitlines()
    return [line.split()[0].split(',') for line in lines if 'REQUIRED' in line and line.lstrip().startswith('-')]


def make_named_files(words, folder):
    """Of data, which the reader has."""
    for name in re.findall(r'[\w-]+\.jsonl', ' '.join(words)):
        (Path(folder) / name).touch()


class Documented(unittest.TestCase):
    def test_every_command_is_one_that_its_program_takes(self):
        tried = 0
        for page in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
            for words in printed_commands(page.read_text(encoding='utf-8')):
                if not (BIN / words[0]).exists():
                    continue  # not part of every build
                with self.subTest(page=page.name, command=' '.join(words)), tempfile.TemporaryDirectory() as folder:
                    make_named_files(words, folder)
                    parsed = run([*words, '--print-config'], cwd=folder)
                    self.assertEqual(parsed.returncode, 0, parsed.stderr)
                    command = [word for word in words[1:2] if not word.startswith('-')]
                    for names in required_flags(words[0], *command):
                        self.assertTrue(set(names) & set(words), f'{names} is missing')
                tried += 1
        self.assertGreater(tried, 20)

    def test_runs_of_the_page_on_benchmarks_run_as_printed(self):
        """From the repository's root, with fewer and shorter answers."""
        text = (ROOT / 'docs/benchmarks.md').read_text(encoding='utf-8')
        runs = [words for words in printed_commands(text) if words[1] == 'run']
        self.assertGreater(len(runs), 1)
        for words in runs:
            with self.subTest(' '.join(words)), tempfile.TemporaryDirectory() as folder:
                places = {'report': f'{folder}/report', 'report.html': f'{folder}/report.html', '20': '2'}
                short = [places.get(word, word) for word in words]
                short += ['--max-tokens', '8'] + ([] if '--num-prompts' in words else ['--num-prompts', '2'])
                done = run(short, cwd=ROOT, timeout=250)
                self.assertIn(done.returncode, (0, MISSED, INCONCLUSIVE), done.stderr)
                figures = json.loads(done.stdout.splitlines()[-1])
                self.assertGreater(figures['compared'], 0)
                self.assertEqual((figures['mismatches'], figures['failed'], figures['not_written']), (0, 0, []))

    def test_a_terminal_gets_no_json(self):
        """And says where it goes."""
        for flags, lines in (([], 'All figures, as JSON'), (['--json'], '"check":"run"')):
            ours, theirs = pty.openpty()
            command = [BIN / 'outrider-bench', 'run', '--clock', 'virtual', '--network', 'lte', '--strategy', 'ar',
                       '--num-prompts', '1', '--max-tokens', '4', *flags]
            with subprocess.Popen(command, cwd=ROOT, env=CLEAN_ENVIRONMENT, stdout=theirs,
                                  stderr=subprocess.DEVNULL) as process:
                os.close(theirs)
                shown = b''
                try:
                    while part := os.read(ours, 65536):
                        shown += part
                except OSError:
                    pass  # its end is closed
                os.close(ours)
            self.assertEqual(process.returncode, INCONCLUSIVE)
            self.assertIn(lines, shown.decode())
            self.assertEqual('"check":"run"' in shown.decode(), bool(flags))


if __name__ == '__main__':
    unittest.main(verbosity=2)
