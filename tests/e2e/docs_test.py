#!/usr/bin/env python3
"""The commands that the pages of docs print run as printed, and end as they say.

  OUTRIDER_BIN=build/release/bin tests/e2e/docs_test.py

A comment behind a command says if it takes minutes (it is then left out), or ends with another exit code than 0. Commands
that name things that only their reader has are left out, too.
SPDX-License-Identifier: Apache-2.0
"""
import re
import shlex
import signal
import subprocess
import unittest

from documented_test import InAFolder, ports_are_free, printed_lines
from programs import BIN, ROOT, START_SECONDS, ending_with_us
from runner import run_tests

# These commands name things that only their reader has.
ELSEWHERE = re.compile(r'/etc/|/srv/|/var/lib/|gpu-node|10\.0\.0\.5|localhost:8001|--model draft\b|other/report\.json|\brobot\.jsonl')
PLACEHOLDER = re.compile(r'(?:^| )(?:TARGET|DRAFT|DIR|MODEL)(?: |$)|"\.\.\."')
TAKES_LONG = re.compile(r'\bminutes?\b')
EXIT_CODE = re.compile(r'exit code (\d)')
SECONDS = 400  # of a command that does not say that it takes minutes, on a loaded machine


def is_server(words):
    return words[0] in ('outrider-server', 'outrider-link') or words[1] == 'serve'


def comment_of(line):
    return line.partition(' # ')[2]


class Docs(InAFolder):
    def start_and_stop(self, words):
        """A program that serves until SIGTERM."""
        process = subprocess.Popen(ending_with_us(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **self.options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        output = ''
        while 'ready' not in output.split():
            line = process.stdout.readline()
            self.assertTrue(line, f'it ended: {output}')
            output += line
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        self.assertEqual(process.wait(timeout=START_SECONDS), 0, output)

    def run_one(self, line):
        words = shlex.split(line, comments=True)
        if is_server(words):
            return self.start_and_stop(words)
        done = self.run_printed(words, timeout=SECONDS)
        stated = EXIT_CODE.search(comment_of(line))
        self.assertEqual(done.returncode, int(stated.group(1)) if stated else 0, done.stderr[-2000:])
        return None

    @unittest.skipUnless(ports_are_free(8001, 8080), 'port 8001 or 8080 is taken')
    def test_their_commands_run_as_printed(self):
        ran = 0
        pages = [page for folder in ('docs', 'bench', 'emulation') for page in (ROOT / folder).glob('**/*.md')]
        for page in sorted(page for page in pages if page.name != 'README.md'):
            for line in printed_lines(page.read_text(encoding='utf-8')):
                words = shlex.split(line, comments=True)
                if not (BIN / words[0]).exists() or TAKES_LONG.search(comment_of(line)):
                    continue
                if ELSEWHERE.search(line) or PLACEHOLDER.search(line):
                    continue
                with self.subTest(page=page.name, command=' '.join(words)):
                    self.run_one(line)
                ran += 1
        self.assertGreater(ran, 12)


if __name__ == '__main__':
    run_tests(verbosity=2)
