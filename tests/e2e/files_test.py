#!/usr/bin/env python3
"""The programs' outputs replace nothing but earlier outputs: every flag that names a file or a folder is tried.

  OUTRIDER_BIN=build/release/bin tests/e2e/files_test.py

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from devices import MountedTmpfs, cannot
from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, Edge, Server, ending_with_us, eventually, free_port, wait_until_served
from runner import run_tests

NOBODY = ('setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups')
FOREIGN = b'a diary, the only copy\n'


class Output:
    """A flag that names a file. command: its words behind the program, with {out} and {in}. source: what {in} is.
    stream: whether it is written in one stream."""

    def __init__(self, name, program, *command, source='model.safetensors', stream=True, quick=True):
        self.name, self.program, self.command = name, program, command
        self.source, self.stream, self.quick = source, stream, quick


OUTPUTS = (
    Output('pack', 'outrider-edge', 'pack', '--model', '{model}', '--out', '{out}', stream=False),
    Output('trace', 'outrider-edge', 'run', '--target', '{model}', '--tokenizer', '{model}', '--strategy', 'ar', '-p',
           'Find it.', '-n', '2', '--trace', '{out}', source='tokenizer.json'),
    Output('logits', 'outrider-bench', 'logits', '--model', '{model}', '--ids', '1,2,3', '--out', '{out}'),
    Output('windows', 'outrider-bench', 'perplexity', '--model', '{model}', '--text', '{in}', '--tokens', '40', '--window', '20',
           '--most-loss', '99', '--write-windows', '{out}', source='text'),
    Output('load', 'outrider-bench', 'load', '--model', '{model}', '--prompts', '{in}', '--out', '{out}', source='prompts',
           quick=False),
    Output('page', 'outrider-bench', 'run', '--clock', 'virtual', '--html', '{out}', '--draft', '{model}', '--target',
           '{model}', source=None, quick=False),
    Output('robot', 'outrider-train', 'data-robot', '--count', '3', '--out', '{out}', source=None),
    Output('wikitext', 'outrider-train', 'data-wikitext', '--in', '{in}', '--out', '{out}', source='text'),
    Output('answers', 'outrider-train', 'generate', '--model', '{model}', '--prompts', '{in}', '--max-tokens', '2', '--out', '{out}',
           source='prompts'),
    Output('own', 'outrider-train', 'data-own', '--model', '{model}', '--count', '1', '--out', '{out}', source=None, quick=False),
    Output('table', 'outrider-train', 'elastic', 'table', '--model', '{model}', '--text', '{in}', '--out', '{out}', source='text',
           quick=False),
    Output('plot', 'outrider-train', 'plot', '--metrics', '{in}', '--out', '{out}', source='metrics'),
)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def fill(disk):
    try:
        with open(disk / f'filler-{time.monotonic_ns()}', 'wb', buffering=0) as filler:
            while True:
                filler.write(b'x' * 1024)
    except OSError:
        pass


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='outrider-files-')
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o755)
        self.model = self.folder / 'model'
        shutil.copytree(DRAFT, self.model)
        (self.model / 'text').write_text(' = Cup = \n\nThe red cup stands on the table. ' * 20, encoding='utf-8')
        (self.model / 'metrics').write_text('{"step":1,"loss":2}\n{"step":2,"loss":1}\n', encoding='utf-8')
        (self.model / 'prompts').write_text('{"prompt":"Find the cup."}\n' * 3, encoding='utf-8')

    def call(self, output, out, *flags, under=()):
        words = [word.replace('{out}', str(out)).replace('{model}', str(self.model))
                 .replace('{in}', str(self.model / (output.source or 'text'))) for word in output.command]
        if BIN / output.program == BIN / 'outrider-train' and not (BIN / output.program).exists():
            self.skipTest('this build has no outrider-train')
        return subprocess.run([*under, BIN / output.program, *words, *flags], capture_output=True, text=True, check=False,
                              errors='replace', timeout=120, env=CLEAN_ENVIRONMENT)

    def refused(self, output, out, words, *flags, under=(), code=2):
        """The command fails with these words, and no file in the folder has another content, kind or mode."""
        before = self.all_files()
        ended = self.call(output, out, *flags, under=under)
        self.assertEqual(ended.returncode, code, ended.stderr)
        self.assertIn(words, ended.stderr)
        self.assertEqual(self.all_files(), before)

    def written(self, output, out, *flags):
        ended = self.call(output, out, *flags)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertFalse([name for name in self.all_files() if 'partial' in name])
        return ended

    def all_files(self):
        found = {}
        for path in sorted(self.folder.rglob('*')):
            about = path.lstat()
            content = digest(path) if stat.S_ISREG(about.st_mode) else os.readlink(path) if path.is_symlink() else ''
            found[str(path)] = (about.st_mode, content)
        return found

    def on_each(self, check, quick=None):
        for output in OUTPUTS:
            if quick is None or output.quick == quick:
                with self.subTest(output=output.name):
                    check(output)
        for leftover in self.folder.glob('out*'):
            leftover.unlink()


class OutputsThatAreFiles(Files):
    def test_an_input_by_its_name_and_by_links(self):
        def check(output):
            if output.source is None:
                return
            source = self.model / output.source
            links = self.folder / f'out-hard-{output.name}', self.folder / f'out-soft-{output.name}'
            os.link(source, links[0])
            links[1].symlink_to(source)
            for out in (source, *links):
                self.refused(output, out, str(out))
                self.refused(output, out, 'reads that file', '--force')
        self.on_each(check, quick=True)

    def test_a_foreign_file_unless_it_is_forced(self):
        def check(output):
            out = self.folder / f'out-{output.name}'
            out.write_bytes(FOREIGN)
            out.chmod(0o640)
            self.refused(output, out, 'Remedy: another name, or --force to replace it')
            if output.quick:
                self.written(output, out, '--force')
                self.assertNotEqual(out.read_bytes(), FOREIGN)
                self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o640)
        self.on_each(check)

    def test_an_earlier_output_is_replaced_and_keeps_its_mode(self):
        def check(output):
            out = self.folder / f'out-{output.name}'
            self.written(output, out)
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o666 & ~self.umask())
            out.chmod(0o604)
            self.written(output, out)
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o604)
        self.on_each(check, quick=True)

    @staticmethod
    def umask():
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_an_empty_file_of_mktemp(self):
        def check(output):
            descriptor, out = tempfile.mkstemp(dir=self.folder, prefix='out-')
            os.close(descriptor)
            self.written(output, out)
            self.assertGreater(os.path.getsize(out), 0)
            self.assertEqual(stat.S_IMODE(os.stat(out).st_mode), 0o600)
        self.on_each(check, quick=True)

    def test_a_link_to_a_file_stays_a_link(self):
        def check(output):
            file, link = self.folder / f'out-{output.name}', self.folder / f'out-{output.name}-link'
            file.touch()
            link.symlink_to(file.name)
            self.written(output, link)
            self.assertTrue(link.is_symlink())
            self.assertGreater(file.stat().st_size, 0)
            file.write_bytes(FOREIGN)
            self.refused(output, link, 'exists and is not')
        self.on_each(check, quick=True)

    def test_a_link_to_nothing(self):
        def check(output):
            link = self.folder / f'out-{output.name}'
            link.symlink_to('nothing')
            self.refused(output, link, 'which does not exist')
            self.refused(output, link, 'which does not exist', '--force')
        self.on_each(check)

    def test_a_fifo_takes_what_is_one_stream(self):
        def check(output):
            fifo = self.folder / f'out-{output.name}'
            os.mkfifo(fifo)
            if not output.stream:
                self.refused(output, fifo, 'is a FIFO')
                return
            reader = subprocess.Popen(ending_with_us('cat', fifo), stdout=subprocess.PIPE)
            self.written(output, fifo)
            self.assertGreater(len(reader.communicate(timeout=30)[0]), 0)
            self.assertTrue(fifo.is_fifo())
        self.on_each(check, quick=True)

    def test_devices_stay_devices(self):
        def check(output):
            if output.stream:
                self.written(output, '/dev/null')
                self.refused(output, '/dev/full', 'No space left on device', code=1)
                self.assertGreater(len(self.written(output, '/dev/stdout').stdout), 0)
            else:
                for device in ('/dev/null', '/dev/full', '/dev/stdout', '/dev/stderr'):
                    self.refused(output, device, 'written out of their order')
                    self.refused(output, device, 'written out of their order', '--force')
            for device in ('/dev/null', '/dev/full'):
                self.assertTrue(Path(device).is_char_device())
        self.on_each(check, quick=True)

    def test_a_folder_and_one_that_is_not_there(self):
        def check(output):
            self.refused(output, self.model, 'is a folder')
            self.refused(output, self.folder / 'none/out', 'no file can be made in its folder')
        self.on_each(check)

    @unittest.skipIf(cannot(MountedTmpfs), cannot(MountedTmpfs))
    def test_a_full_disk_leaves_the_old_file(self):
        disk = self.enterContext(MountedTmpfs(self.folder / 'disk', 64 << 10))
        def check(output):
            out = disk / 'out'
            self.written(output, self.folder / 'out')
            out.write_bytes((self.folder / 'out').read_bytes()[:4000])
            (self.folder / 'out').unlink()
            fill(disk)
            self.refused(output, out, 'No space left on device', code=1)
            out.unlink()
            fill(disk)
            self.refused(output, out, 'No space left on device', code=1)
            for filler in disk.iterdir():
                filler.unlink()
        self.on_each(check, quick=True)

    @unittest.skipIf(cannot(MountedTmpfs), cannot(MountedTmpfs))
    def test_a_read_only_disk(self):
        disk = self.enterContext(MountedTmpfs(self.folder / 'disk', 64 << 10, 'ro'))
        def check(output):
            self.refused(output, disk / 'out', 'Read-only file system')
        self.on_each(check)

    def test_what_another_user_may_not_write(self):
        if os.geteuid() != 0:
            self.skipTest('only root can be another user')
        for probe in ([BIN / 'outrider-edge', '--version'], ['cat', *filter(Path.is_file, self.model.iterdir())]):
            if subprocess.run([*NOBODY, *probe], check=False, capture_output=True).returncode != 0:
                self.skipTest('another user cannot run the programs or read their model here')
        shared = self.folder / 'shared'
        shared.mkdir()
        def check(output):
            out = shared / f'out-{output.name}'
            self.refused(output, out, 'no file can be made in its folder: Permission denied', under=NOBODY)
            out.touch(0o644)
            self.refused(output, out, 'may not be written: Permission denied', under=NOBODY)
            out.unlink()
        self.on_each(check)


class OutputsThatAreFolders(Files):
    FOLDERS = (
        Output('inflate', 'outrider-train', 'inflate', '--model', '{model}', '--to-bytes', '3000000', '--out', '{out}'),
        Output('tokenizer', 'outrider-train', 'tokenizer', '--text', '{in}', '--vocab-size', '300', '--out', '{out}',
               source='text'),
    )

    def on_each_folder(self, check):
        for output in self.FOLDERS:
            with self.subTest(output=output.name):
                check(output, self.folder / f'folder-{output.name}')

    def test_a_new_one_and_an_earlier_output(self):
        def check(output, out):
            self.written(output, out)
            first = self.all_files()
            self.written(output, out)
            self.assertEqual(self.all_files(), first)
        self.on_each_folder(check)

    def test_the_models_own_folder_is_never_written_over(self):
        for flags in ((), ('--force',)):
            self.refused(self.FOLDERS[0], self.model, 'is the model itself', *flags)

    def test_foreign_files_stay_unless_they_are_forced(self):
        def check(output, out):
            for name in ('config.json', 'model.safetensors') if output.name == 'inflate' else ('tokenizer.json', 'tokenizer_config.json'):
                out.mkdir()
                (out / name).write_bytes(FOREIGN)
                (out / 'notes').write_bytes(FOREIGN)
                ended = self.call(output, out)
                self.assertEqual(ended.returncode, 2, ended.stderr)
                self.assertIn(f'{name}: exists and is not', ended.stderr)
                self.assertEqual((out / name).read_bytes(), FOREIGN)
                self.written(output, out, '--force')
                self.assertEqual((out / 'notes').read_bytes(), FOREIGN)
                shutil.rmtree(out)
        self.on_each_folder(check)


class Logs(Files):
    def log(self, out, under=()):
        return subprocess.run([*under, BIN / 'outrider-edge', 'tokenize', '--tokenizer', self.model, '--log-file', out],
                              input='x\n', capture_output=True, text=True, check=False, env=CLEAN_ENVIRONMENT, timeout=60)

    def test_what_is_no_log_is_refused_and_no_folder_is_made(self):
        out = self.folder / 'out'
        out.write_bytes(FOREIGN)
        (self.folder / 'link').symlink_to('nothing')
        before = self.all_files()
        for path, words, code in ((out, 'is not a log of Outrider', 2), (self.model / 'config.json', 'is not a log of Outrider', 2),
                                  (self.folder / 'link', 'does not exist', 2), (self.model, 'is a folder', 2),
                                  (self.folder / 'none/deep/log', 'No such file or directory', 1)):
            ended = self.log(path)
            self.assertEqual(ended.returncode, code, ended.stderr)
            self.assertIn(words, ended.stderr)
        self.assertEqual(self.all_files(), before)

    def test_a_log_is_gone_on_with(self):
        for line in ('09:41:05.123 info served\n', '{"time":"2026-01-31T09:41:05.123+00:00","level":"info"}\n', ''):
            out = self.folder / 'out'
            out.write_text(line, encoding='utf-8')
            self.assertEqual(self.log(out).returncode, 0)
            self.assertTrue(out.read_text(encoding='utf-8').startswith(line))
        for device in ('/dev/null', '/dev/full', '/dev/stderr'):
            self.assertEqual(self.log(device).returncode, 0)


class Rotation(Files):
    """A program that rotates logs renames the file and sends SIGHUP."""

    def assert_rotates(self, process, log):
        self.wait_for(log, 0)
        old = log.with_suffix('.1')
        log.rename(old)
        before = old.read_text(encoding='utf-8')
        process.send_signal(signal.SIGHUP)
        self.wait_for(log, 1)
        self.assertIn('log file opened again', log.read_text(encoding='utf-8'))
        self.assertEqual(old.read_text(encoding='utf-8'), before)
        self.assertIsNone(process.poll())

    def wait_for(self, log, lines):
        eventually(lambda: log.exists() and log.read_text(encoding='utf-8').count('\n') >= lines, f'{log} has no line')

    def test_of_the_server(self):
        log = self.folder / 'server.log'
        with Server('--log-file', log, '--log-level', 'debug') as server:
            self.assert_rotates(server.process, log)

    def test_of_an_edge_that_serves(self):
        log = self.folder / 'edge.log'
        port = free_port()
        edge = Edge('serve', '--target', self.model, '--tokenizer', self.model, '--strategy', 'ar', '--port', port,
                    '--log-file', log, '--log-level', 'debug')
        self.addCleanup(edge.wait)
        self.addCleanup(edge.interrupt)
        wait_until_served(f'http://127.0.0.1:{port}')
        self.assert_rotates(edge.process, log)

    def other_edge(self, *flags, under=()):
        """A chat that waits for its next line."""
        process = subprocess.Popen(ending_with_us(*under, BIN / 'outrider-edge', 'chat', '--target', self.model, '--tokenizer', self.model,
                                                  '--strategy', 'ar', '-n', '1', '--json', *flags), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=CLEAN_ENVIRONMENT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(self.answers(process))
        return process

    @staticmethod
    def answers(process):
        process.stdin.write('Find it.\n')
        process.stdin.flush()
        return process.stdout.readline()

    def test_of_a_chat(self):
        log = self.folder / 'chat.log'
        process = self.other_edge('--log-file', log, '--log-level', 'debug')
        self.assert_rotates(process, log)
        self.assertTrue(self.answers(process))

    def test_without_a_log_file_a_hang_up_ends_an_edge_as_sigterm_does(self):
        process = self.other_edge()
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(timeout=60), 130)

    def test_under_nohup_a_hang_up_is_nothing(self):
        process = self.other_edge(under=('nohup',))
        process.send_signal(signal.SIGHUP)
        self.assertTrue(self.answers(process))

    def test_a_file_that_cannot_be_opened_again_leaves_the_log_where_it_is(self):
        folder = self.folder / 'logs'
        folder.mkdir()
        log, moved = folder / 'server.log', self.folder / 'moved'
        with Server('--log-file', log, '--log-level', 'debug') as server:
            self.wait_for(log, 1)
            folder.rename(moved)
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: 'the log goes on in the file that was open' in (moved / 'server.log').read_text(encoding='utf-8'))


if __name__ == '__main__':
    run_tests()
