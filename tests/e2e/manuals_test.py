#!/usr/bin/env python3
"""The files that packages hold beside the programs, made from their flags: completion in bash and zsh, man pages. Parts skip
where zsh, man or cmake is missing.

  OUTRIDER_BIN=build/release/bin tests/e2e/manuals_test.py

SPDX-License-Identifier: Apache-2.0
"""
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT
from runner import run_tests
from terminal import Terminal

COMMANDS = {'outrider-edge': ['run', 'chat', 'serve', 'doctor', 'tokenize', 'detokenize', 'pack'],
            'outrider-server': ['token new']}


def printed(program, *flags):
    return subprocess.run([BIN / program, *flags], capture_output=True, text=True, timeout=60, check=True,
                          env=CLEAN_ENVIRONMENT).stdout


def flags_of(program, command=''):
    """The flags of --help-all, which without a command shows those of all commands."""
    flag = '--help' if (program, command) == ('outrider-edge', '') else '--help-all'
    names = re.findall(r'^  (-\S+)', printed(program, *command.split(), flag), re.M)
    return {name for listed in names for name in listed.split(',') if name.startswith('--')}


class Bash(unittest.TestCase):
    def complete(self, *words, folder='.'):
        """Returns the words that bash offers for the last word."""
        program = words[0]
        script = ('source /dev/stdin; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  'spec=$(complete -p "$1"); function=${spec#*-F }; ${function%% *} "$1"; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(['bash', '--norc', '-c', script, 'bash', *words], input=printed(program, '--print-completion', 'bash'),
                              capture_output=True, text=True, timeout=60, check=True, cwd=folder)
        self.assertEqual(done.stderr, '')
        return done.stdout.split()

    def test_commands_flags_and_values(self):
        self.assertEqual(self.complete('outrider-edge', 'd'), ['doctor', 'detokenize'])
        self.assertEqual(self.complete('outrider-edge', 'chat', '--context'), ['--context-shift'])
        self.assertEqual(self.complete('outrider-edge', 'run', '--context'), [])
        self.assertEqual(self.complete('outrider-edge', 'run', '--strategy', 's'), ['sd'])
        self.assertEqual(self.complete('outrider-edge', 'run', '--log-level', '=', 'tr'), ['trace'])
        self.assertEqual(self.complete('outrider-edge', 'run', '--log-level', '='),
                         ['trace', 'debug', 'info', 'warning', 'error', 'off'])
        self.assertEqual(self.complete('outrider-edge', 'run', '--threads', ''), [])
        self.assertEqual(self.complete('outrider-server', '--device', 'cu'), ['cuda'])
        self.assertEqual(self.complete('outrider-server', 'to'), ['token'])
        self.assertEqual(self.complete('outrider-server', 'token', 'new', '--'), ['--help', '--help-all', '--token-file'])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / 'model.gguf').touch()
            (Path(folder) / 'notes').touch()
            self.assertEqual(self.complete('outrider-edge', 'run', '-m', 'mo', folder=folder), ['model.gguf'])
            self.assertEqual(self.complete('outrider-server', '--config', '=', 'mo', folder=folder), ['model.gguf'])

    def test_every_flag_is_offered(self):
        for program, commands in COMMANDS.items():
            for command in ['', *commands]:
                flags = flags_of(program, command)
                self.assertTrue(flags)
                self.assertLessEqual(flags, set(self.complete(program, *command.split(), '--')), f'{program} {command}')


@unittest.skipUnless(shutil.which('zsh'), 'needs zsh (Debian package zsh)')
class Zsh(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for program in COMMANDS:
            (self.folder / f'_{program}').write_text(printed(program, '--print-completion', 'zsh'), encoding='utf-8')

    def test_zsh_reads_them(self):
        for program in COMMANDS:
            done = subprocess.run(['zsh', '-n', self.folder / f'_{program}'], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_commands_flags_and_values_complete(self):
        with Terminal('zsh', '-f', '-i', columns=200, environment={'HOME': str(self.folder), 'PS1': 'zsh> '}) as shell:
            shell.wait_for('^zsh> ?$')
            shell.type(f'fpath=({self.folder} $fpath); autoload -U compinit; compinit -u -D; echo ready for it\r')
            shell.wait_for('^ready for it$')
            for keys, wanted in (('outrider-edge cha\t--context-sh\t', 'outrider-edge chat --context-shift'),
                                 ('outrider-edge run --log-level tr\t', 'outrider-edge run --log-level trace'),
                                 ('outrider-server --dev\tcud\t', 'outrider-server --device=cuda'),
                                 ('outrider-server tok\tne\t--tok\t', 'outrider-server token new --token-file=')):
                shell.type(keys)
                shell.wait_for(f'> {re.escape(wanted)}', seconds=30)
                shell.type('\x15')  # clears the line

    def test_every_flag_is_offered(self):
        for program, commands in COMMANDS.items():
            text = (self.folder / f'_{program}').read_text(encoding='utf-8')
            for command in ['', *commands]:
                for flag in flags_of(program, command):
                    self.assertRegex(text, rf"['*)]{flag}[=\[]", f'{program} {command}')


class ManPages(unittest.TestCase):
    @unittest.skipUnless(shutil.which('man') and shutil.which('nroff'), 'needs man (Debian package man-db)')
    def test_man_finds_nothing_wrong(self):
        for program in COMMANDS:
            with tempfile.NamedTemporaryFile('w', suffix='.1') as page:
                page.write(printed(program, '--print-man'))
                page.flush()
                done = subprocess.run(['man', '--warnings', '-l', page.name], capture_output=True, text=True, timeout=60,
                                      check=False, env={**CLEAN_ENVIRONMENT, 'MANWIDTH': '100', 'LC_ALL': 'C.UTF-8'})
                self.assertEqual((done.returncode, done.stderr), (0, ''))
                self.assertIn('EXIT STATUS', done.stdout)

    def test_what_commands_share_stands_there_once(self):
        page = printed('outrider-edge', '--print-man')
        self.assertIn('.SH OPTIONS OF RUN, CHAT, SERVE AND DOCTOR\n', page)
        self.assertEqual(page.count('\\fB\\-\\-strategy\\fR'), 1)

    def test_every_flag_and_command_is_told(self):
        for program, commands in COMMANDS.items():
            page = printed(program, '--print-man').replace('\\-', '-')
            for command in ['', *commands]:
                if command:
                    self.assertIn(f'\\fB{command}\\fR', page)
                for flag in flags_of(program, command):
                    self.assertIn(f'\\fB{flag}\\fR', page, f'{program} {command}')


@unittest.skipUnless(shutil.which('cmake'), 'needs cmake')
class Packages(unittest.TestCase):
    def test_they_hold_all_three(self):
        for part in ('edge', 'server'):
            with tempfile.TemporaryDirectory() as root:
                subprocess.run(['cmake', '--install', BIN.resolve().parent, '--component', part, '--prefix', root],
                               capture_output=True, timeout=120, check=True)
                share, program = Path(root) / 'share', f'outrider-{part}'
                bash = (share / 'bash-completion/completions' / program).read_text(encoding='utf-8')
                self.assertEqual(bash, printed(program, '--print-completion', 'bash'))
                zsh = (share / 'zsh/vendor-completions' / f'_{program}').read_text(encoding='utf-8')
                self.assertEqual(zsh, printed(program, '--print-completion', 'zsh'))
                page = subprocess.run(['gzip', '-dc', share / f'man/man1/{program}.1.gz'], capture_output=True, text=True,
                                      timeout=60, check=True)
                self.assertEqual(page.stdout, printed(program, '--print-man'))


if __name__ == '__main__':
    run_tests(verbosity=2)
