#!/usr/bin/env python3
"""The commands that README.md and the pages print are ones that the programs take; those of README.md and of
outrider-bench run.

  OUTRIDER_BIN=build/release/bin tests/e2e/documented_test.py

SPDX-License-Identifier: Apache-2.0
"""
import functools
import json
import os
import pty
import re
import shlex
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, ROOT, START_SECONDS, ending_with_us, eventually, wait_until_served
from runner import run_tests

PAGES = ('README.md', 'CONTRIBUTING.md', '*/README.md', 'docs/*.md', 'bench/**/*.md', 'emulation/*.md')
PROGRAM = re.compile(r'outrider-(?:edge|server|link|bench|train)$')
SMOLLM2 = ROOT / 'models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
FIGURES = re.compile(r'\d[\d.:]*')
MISSED, INCONCLUSIVE = 1, 4  # answers this short do not decide bars


def printed_lines(text):
    """The commands of the page's code blocks, with continued lines joined."""
    for block in re.findall(r'^ *```\w*\n(.*?)^ *```', text, re.M | re.S):
        for line in block.replace('\\\n', ' ').splitlines():
            if PROGRAM.match(line.split(' ')[0]) and '..' not in line.split():  # more flags, which the reader has
                yield line


def printed_commands(text):
    """The same as lists of words, without comments."""
    return (shlex.split(line, comments=True) for line in printed_lines(text))


def run(words, **options):
    return subprocess.run(ending_with_us(BIN / words[0], *words[1:]), capture_output=True, text=True, check=False,
                          env=CLEAN_ENVIRONMENT, **options)


@functools.cache
def help_of(*command):
    return run([*command, '--help']).stdout


def required_flags(*command):
    """Each as the names that it has."""
    lines = help_of(*command).splitlines()
    return [line.split()[0].split(',') for line in lines if 'REQUIRED' in line and line.lstrip().startswith('-')]


def make_named_files(words, folder):
    """Makes the data files that the reader has."""
    for name in re.findall(r'[\w-]+\.jsonl', ' '.join(words)):
        (Path(folder) / name).touch()


def ports_are_free(*ports):
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(('127.0.0.1', port))
            except OSError:
                return False
    return True


class InAFolder(unittest.TestCase):
    """Commands as printed, in a folder of their own that has what they name of the repository."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.options = {'cwd': folder.name, 'text': True,
                        'env': {**CLEAN_ENVIRONMENT, 'PATH': f'{BIN}:{os.environ["PATH"]}', 'OUTRIDER_STATE_DIR': 'none'}}
        for name in ('bench', 'deploy'):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / 'models').mkdir()
        for path in (ROOT / 'models').iterdir():
            if path.name != 'smollm2':
                (self.folder / 'models' / path.name).symlink_to(path)

    def make_smollm2(self):
        """Makes the folder as `./run model smollm2` does. False where its model was not fetched."""
        if not SMOLLM2.exists() or not (BIN / 'outrider-train').exists():
            return False
        (self.folder / 'models/smollm2').mkdir()
        (self.folder / 'models/smollm2' / SMOLLM2.name).symlink_to(SMOLLM2)
        composed = self.run_printed(['outrider-train', 'compose', '--target', f'models/smollm2/{SMOLLM2.name}',
                                     '--layers', 'models/smollm2-draft', '--out', 'models/smollm2/draft'])
        self.assertEqual(composed.returncode, 0, composed.stderr)
        return True

    def run_printed(self, words, **more):
        return subprocess.run(ending_with_us(*words), capture_output=True, check=False, **{'timeout': 400, **self.options, **more})

    def start(self, words):
        process = subprocess.Popen(ending_with_us(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **self.options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def stop(self, process):
        process.terminate()
        self.assertEqual(process.wait(timeout=START_SECONDS), 0)

    def wait_for(self, port):
        eventually(lambda: not ports_are_free(port), f'no program listens on {port}', START_SECONDS)


class Readme(InAFolder):
    """Its commands, from first to last: one server, the default ports."""

    @unittest.skipUnless(ports_are_free(8001, 8080), 'port 8001 or 8080 is taken')
    def test_its_commands_run_as_printed(self):
        seen = []
        for words in printed_commands((ROOT / 'README.md').read_text(encoding='utf-8')):
            program, command = words[0], words[1]
            seen.append(command)
            self.assertNotIn('...', words, 'it asks something that its models know')
            with self.subTest(' '.join(words)):
                if program == 'outrider-server':
                    server = self.start(words)
                    self.wait_for(8001)
                elif command == 'serve':
                    serving = self.start(words)
                    wait_until_served('http://127.0.0.1:8080')
                    self.stop(serving)
                elif command == 'chat' and not self.make_smollm2():
                    print('the chat is left out: models/smollm2 is not there. Remedy: ./run model smollm2')
                else:
                    done = self.run_printed(words, input='What is a robot?\n' if command == 'chat' else '')
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(done.stdout.strip() or command == 'pack', done.stderr)
        self.assertEqual(set(seen), {'--model', 'run', 'chat', 'serve', 'doctor', 'pack'}, 'another kind of command needs its way here')
        self.stop(server)

    def test_the_demo_prints_the_excerpt(self):
        """Its figures apart."""
        text = (ROOT / 'README.md').read_text(encoding='utf-8')
        excerpt = re.search(r'The demo prints.*?```\n(.*?)```', text, re.S).group(1).splitlines()
        done = subprocess.run(ending_with_us(ROOT / 'deploy/demo.sh', BIN), capture_output=True, text=True, check=False,
                              timeout=120, env=CLEAN_ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = (done.stdout + done.stderr).splitlines()
        logged = [FIGURES.sub('0', line) for line in shown]
        for line in excerpt:
            if line.startswith(' ') or ' info ' in line:
                self.assertIn(FIGURES.sub('0', line), logged)
            else:
                self.assertIn(line, shown)


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

    def test_commands_of_results_are_there(self):
        """Unless they name the revision that had them."""
        tried = 0
        for path in sorted((ROOT / 'bench/results').glob('*.json')):
            for command in json.loads(path.read_text(encoding='utf-8'))['commands']:
                if command.startswith('revision '):
                    continue
                for name, verb in re.findall(r'(outrider-(?:edge|bench|train)) ([a-z][\w-]*)', command):
                    if (BIN / name).exists():
                        self.assertRegex(help_of(name), rf'(?m)^  {verb}\b', f'{path.name}: {command}')
                        tried += 1
                for script in re.findall(r'[\w/]+\.py', re.sub(r'\./run soak (\w+)', r'tests/soak/\1.py', command)):
                    self.assertTrue((ROOT / script).exists() or list(ROOT.glob(f'bench/**/{script}')), f'{path.name}: {command}')
        self.assertGreater(tried, 40)

    def test_runs_of_the_page_on_benchmarks_run_as_printed(self):
        """From the repository's root, with fewer and shorter answers."""
        text = (ROOT / 'bench/benchmarks.md').read_text(encoding='utf-8')
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

    def test_a_run_says_how_much_is_to_come_and_its_page_is_there_meanwhile(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / 'report.html'
            command = [BIN / 'outrider-bench', 'run', '--network', 'lte', '--strategy', 'ar,sd', '--exit-cost', '1.1', '--num-prompts', '20',
                       '--html', page]
            with subprocess.Popen(ending_with_us(*command), cwd=ROOT, env=CLEAN_ENVIRONMENT, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                announcement = next(line for line in process.stderr if 'to come' in line)
                self.assertIn('40 answers of at most 200 tokens are to come: 20 prompts, 1 repetition(s), 2 strategies', announcement)
                self.assertIn('of 40, ', process.stderr.readline())
                eventually(lambda: page.exists() or process.poll() is not None)
                self.assertIsNone(process.poll())
                process.kill()
            self.assertRegex(page.read_text(encoding='utf-8'), r'it goes on, or was interrupted, and has 1 of 40 answers')

    def test_reproduce_shows_how_far_it_is(self):
        done = run(['outrider-bench', 'reproduce', 'fsd-table8'], cwd=ROOT, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('answers of at most', done.stderr)
        self.assertRegex(done.stderr, r'\d+ of \d+')

    def test_a_misspelt_figure_of_a_paper_gets_the_nearest_name(self):
        done = run(['outrider-bench', 'reproduce', 'fsd-tabel7'], cwd=ROOT, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("Did you mean 'fsd-table7'?", done.stderr)

    def test_a_reproduction_ends_with_its_verdict(self):
        for name, verdict in (('fsd-table2', '10 of 16 figures agree, 2 differ for a known reason, 0 differ without one, 4 are quoted'),
                              ('lever-table1', '8 of 8 figures agree, 0 differ for a known reason, 0 differ without one, 0 are quoted')):
            done = run(['outrider-bench', 'reproduce', name], cwd=ROOT, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('verdict: ' + verdict, done.stdout)

    def test_elsewhere_the_default_prompts_are_missed_with_the_remedy(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(['outrider-bench', 'run', '--clock', 'virtual', '--network', 'lte', '--strategy', 'ar', '--target',
                        str(ROOT / 'models/demo-target'), '--draft', str(ROOT / 'models/demo-draft')], cwd=folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('bench/prompts: no such file. Remedy: --prompts FILE', done.stderr)

    def test_a_terminal_gets_no_json(self):
        """And says where it goes."""
        for flags, lines in (([], 'All figures, as JSON'), (['--json'], '"check":"run"')):
            ours, theirs = pty.openpty()
            command = [BIN / 'outrider-bench', 'run', '--clock', 'virtual', '--network', 'lte', '--strategy', 'ar',
                       '--num-prompts', '1', '--max-tokens', '4', *flags]
            with subprocess.Popen(ending_with_us(*command), cwd=ROOT, env=CLEAN_ENVIRONMENT, stdout=theirs,
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
    run_tests(verbosity=2)
