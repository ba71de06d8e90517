#!/usr/bin/env python3
"""--config reads what --print-config of each program and command prints, with the same meaning; what --help omits.

  OUTRIDER_BIN=build/release/bin tests/e2e/config_test.py

SPDX-License-Identifier: Apache-2.0
"""
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT
from runner import run_tests

PROGRAMS = ('outrider-edge', 'outrider-server', 'outrider-lab-edge', 'outrider-lab-server', 'outrider-train', 'outrider-bench')


def run(program, *arguments, environment=None):
    return subprocess.run([BIN / program, *map(str, arguments)], capture_output=True, text=True, check=False,
                          env={**CLEAN_ENVIRONMENT, **(environment or {})})


def commands(program):
    """The names of its commands; [] if it has none."""
    text = run(program, '--help').stdout
    listed = text.split('\nSubcommands:\n')[1].split('\n\n')[0] if '\nSubcommands:\n' in text else ''
    return re.findall(r'^  (\S+)', listed, re.M)


def flags_in(text):
    """{flag: its group} of a help text."""
    found, group = {}, ''
    for line in text.splitlines():
        if re.match(r'\S.*:$', line):
            group = line
        elif flag := re.match(r'  (?:-\w,)?(--[\w-]+)', line):
            found[flag.group(1)] = group
    return found


class Help(unittest.TestCase):
    def test_shows_the_flags_that_are_usually_needed_in_groups(self):
        for words, most in ((('outrider-edge', 'run'), 42), (('outrider-server',), 40)):
            shown, whole = (flags_in(run(*words, flag).stdout) for flag in ('--help', '--help-all'))
            self.assertLessEqual(len(shown), most, words)
            self.assertIsNone(re.search(r'--(pace|client-queue|server-queue|exit-score|flash-bandwidth|tree-widths)|'
                                        r'specedge|\bssd\b|picospec|\bfixed\b|top-n', run(*words, '--help-all').stdout))
            self.assertLess(shown.items(), whole.items())
            self.assertGreater(len(set(shown.values())), 4, words)
            rare = {group for flag, group in whole.items() if flag not in shown}
            self.assertTrue(rare and all(group.endswith(', rarely needed:') for group in rare), rare)


class RenamedFlags(unittest.TestCase):
    def test_the_old_name_is_refused_with_the_new_one(self):
        refused = run('outrider-edge', 'run', '--handback-after', '1', '-p', 'x')
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("Did you mean '--failback-after'?", refused.stderr)


class PrintedConfig(unittest.TestCase):
    def assert_reads_back(self, program, command, *flags):
        printed = run(program, *command, *flags, '--print-config')
        self.assertEqual(printed.returncode, 0, f'{program} {command}: {printed.stderr}')
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'flags.toml'
            file.write_text(printed.stdout, encoding='utf-8')
            again = run(program, *command, '--config', file, '--print-config')
        self.assertEqual(again.returncode, 0, f'{program} {command}: {again.stderr}')
        self.assertEqual(again.stdout, printed.stdout)
        return printed.stdout

    def test_of_every_program_and_command_as_it_is(self):
        tried = 0
        for program in PROGRAMS:
            if not (BIN / program).exists():
                continue  # not part of every build
            for command in [[name] for name in commands(program)] or [[]]:
                with self.subTest(program=program, command=command):
                    self.assert_reads_back(program, command)
                    tried += 1
        self.assertGreater(tried, 15, 'seven commands of each edge, and the servers')

    def test_of_values_that_a_file_could_misread(self):
        values = ('"', "'", '\\', 'a\nb\tc', '[x]', '[x,y]', '# no comment', ' blanks ', 'a = b', 'x,y', '{}', 'true',
                  '0x10', 'ü', '%s', '[')
        flags = [part for value in values for part in ('--stop', value)]
        text = self.assert_reads_back('outrider-lab-edge', ['run'], *flags, '--model', '[m]', '--insecure', '--seed',
                                      '18446744073709551615', '--temp', '0.1', '--tree-widths', '1,2,3', '-p', 'a\n"b"',
                                      '--pace-step-ms', '1:20,5:30', '--strategy', 'ssd')
        self.assertIn('insecure = "true"', text)
        for value in values:
            self.assert_reads_back('outrider-edge', ['run'], '--stop', value, '--chat-template', value)

    def test_of_flags_of_the_server(self):
        text = self.assert_reads_back('outrider-server', [], '--model', 'x', '--http-port', '0', '--metrics-port', '8002')
        self.assertIn('http-port = "0"', text)

    def test_a_service_link_of_kubernetes_is_no_port(self):
        for program, command in (('outrider-server', ['--model', 'x']), ('outrider-edge', ['serve'])):
            printed = run(program, *command, '--print-config', environment={'OUTRIDER_PORT': 'tcp://10.0.0.1:8001'})
            self.assertEqual(printed.returncode, 0, printed.stderr)
            self.assertNotIn('tcp://', printed.stdout)

    def test_what_the_laboratory_has_is_refused_with_its_programs_name(self):
        moved = {'edge': ('--client-queue=fifo', '--flash-bandwidth=nvme', '--pace-step-ms=20', '--tree-widths=2,1',
                          '--strategy=specedge', '--strategy=ssd', '--strategy=picospec', '--tree=fixed', '--tree=top-n'),
                 'server': ('--server-queue=fifo', '--exit-score=calibrated', '--pace-pass-ms=20', '--pace-exit-cost=1.1')}
        for name, arguments in moved.items():
            command = ['run'] if name == 'edge' else ['--model', 'x']
            for argument in arguments:
                ended = run(f'outrider-{name}', *command, argument)
                self.assertEqual(ended.returncode, 2, argument)
                self.assertIn(argument.split('=')[argument.startswith(('--strategy', '--tree='))], ended.stderr)
                self.assertIn(f'outrider-lab-{name} has it', ended.stderr)
                taken = run(f'outrider-lab-{name}', *command, argument, '--print-config')
                self.assertEqual(taken.returncode, 0, f'{argument}: {taken.stderr}')

    def test_flags_of_other_programs_are_not_read_as_ours(self):
        for words in (('-hf', 'X'), ('-md', 'X'), ('-ngl', '99'), ('-fa', 'on'), ('-cd', '512')):
            ended = run('outrider-edge', 'run', *words)
            self.assertEqual((ended.returncode, ended.stdout), (2, ''), words)
            self.assertIn(f"unknown argument '{words[0]}'", ended.stderr)


if __name__ == '__main__':
    run_tests(verbosity=2)
