"""Runs outrider-server and outrider-edge as their users do: processes, sockets, signals.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import json
import os
import queue
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / 'models/demo-target'
DRAFT = ROOT / 'models/demo-draft'
BIN = Path(os.environ.get('OUTRIDER_BIN', ROOT / 'build/release/bin'))
START_SECONDS = 60
ANSWER_SECONDS = 120

# The programs read OUTRIDER_* as flags; only those that a test sets may count, and no earlier answer.
CLEAN_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith('OUTRIDER_')}
CLEAN_ENVIRONMENT['OUTRIDER_STATE_DIR'] = 'none'


# Flags and values that only the laboratory's programs have (bench/lab).
LABORATORY = ('--hold', '--kernel', '--pace-pass-ms', '--pace-exit-cost', '--server-queue', '--exit-score',
              '--pace-step-ms', '--flash-bandwidth', '--client-queue', '--tree-widths',
              'specedge', 'ssd', 'picospec', 'fixed', 'top-n')


def program_for(name, arguments):
    """The path of outrider-NAME, or of outrider-lab-NAME if an argument needs it."""
    laboratory = any(str(argument).split('=')[0] in LABORATORY for argument in arguments)
    return BIN / (f'outrider-lab-{name}' if laboratory else f'outrider-{name}')


def ending_with_us(*command):
    """The command as Popen takes it. It is killed when the thread that starts it ends, however it ends: what runs a test
    may be killed, and leaves nothing behind. The shell looks whether that was before the signal was asked for."""
    look = '[ "$PPID" = "$0" ] && exec "$@"'
    return ['setpriv', '--pdeathsig', 'KILL', 'sh', '-c', look, str(os.getpid()), *map(str, command)]


def eventually(condition, why='it did not come true', seconds=60):
    """Waits until the condition holds, and returns its value; fails with `why` if it does not come true. While a program
    starts or ends, an OSError is no answer yet."""
    give_up = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if found := condition():
                return found
        if time.monotonic() > give_up:
            raise AssertionError(why() if callable(why) else why)
        time.sleep(0.02)


def is_sanitized(program):
    """Whether it was built with AddressSanitizer, which maps much memory and opens pipes for itself."""
    return b'__asan_init' in Path(program).read_bytes()


def free_port(*addresses):
    """A port that is free on each of the addresses (127.0.0.1 if none is named), and that no outgoing connection takes
    before a server listens on it or comes back to it: the system gives those a port from its ephemeral range."""
    first_ephemeral = int(Path('/proc/sys/net/ipv4/ip_local_port_range').read_text(encoding='utf-8').split()[0])
    while True:
        port = random.randrange(10240, first_ephemeral)
        try:
            for address in addresses or ('127.0.0.1',):
                with socket.socket() as probe:
                    probe.bind((address, port))
            return port
        except OSError:
            continue


def make_certificate(folder):
    """A self-signed certificate of 127.0.0.1 and its key: two files in PEM."""
    cert, key = Path(folder) / 'cert.pem', Path(folder) / 'key.pem'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
                    '-nodes', '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1',
                    '-days', '2', '-keyout', key, '-out', cert], check=True, capture_output=True)
    return cert, key


def new_key(tokens, tenant='alice'):
    """A key of the tenant's, which is in the file."""
    made = subprocess.run([BIN / 'outrider-server', 'token', 'new', tenant, '--token-file', tokens],
                          check=True, capture_output=True, text=True)
    return made.stdout.strip()


def limit(tokens, words):
    """Appends a line after the file's last key."""
    lines = tokens.read_text(encoding='utf-8').splitlines()
    lines[-1] = ' '.join(lines[-1].split()[:2] + [words])
    tokens.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def wait_until_served(base):
    """Waits until an HTTP server is healthy."""
    eventually(lambda: urllib.request.urlopen(f'{base}/health', timeout=5).read(), f'{base} does not serve', START_SECONDS)


# For servers that are asked the same twice: what a tenant has asked before is drafted from its earlier answer and comes
# in a pass or two, which leaves no time to disturb it.
FORGETFUL = ('--no-enable-prefix-caching',)


class Server:
    """An outrider-server on the loopback, ready when the constructor returns."""

    def __init__(self, *flags, port=0, model=TARGET, environment=None, under=()):
        """under: words before the program's name."""
        command = ending_with_us(*under, program_for('server', flags), '--model', model, '--port', port, *flags)
        self.process = subprocess.Popen(command, text=True, errors='backslashreplace',
                                        env={**CLEAN_ENVIRONMENT, **(environment or {})},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.log = []
        self._lines = queue.Queue()
        self._readers = [threading.Thread(target=self._read, args=(stream,), daemon=True)
                         for stream in (self.process.stdout, self.process.stderr)]
        for reader in self._readers:
            reader.start()
        self.address = self._wait_for_address()
        self.port = int(self.address.rsplit(':', 1)[1])

    def _read(self, stream):
        for line in stream:
            self.log.append(line)
            self._lines.put(line)
        stream.close()

    def _wait_for_address(self):
        address, give_up = None, time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            try:
                words = self._lines.get(timeout=0.2).split()
            except queue.Empty:
                if self.process.poll() is not None:
                    break
                continue
            if words[:1] == ['listening']:
                address = words[1]
            if words[:1] == ['ready']:
                return address
        self.stop()
        raise RuntimeError('outrider-server did not start:\n' + ''.join(self.log))

    def metric(self, name, labels=''):
        """The value of a series, the first with these labels; the server must have been started with
        --metrics-port."""
        line = next(line for line in self.log if line.split()[:1] == ['metrics'])
        with urllib.request.urlopen(line.split()[1] + '/metrics', timeout=30) as answer:
            text = answer.read().decode()
        return float(re.search(rf'^outrider_{name}{{[^}}]*{labels}[^}}]*}} (\S+)$', text, re.M).group(1))

    def kill(self):
        """SIGKILL, like a power cut."""
        self.process.kill()
        self._wait()

    def stop(self):
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        return self._wait()

    def _wait(self):
        """Its last lines are read after it has ended."""
        code = self.process.wait(timeout=ANSWER_SECONDS)
        for reader in self._readers:
            reader.join(timeout=10)  # what it started may hold its streams
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class HeldServer(Server):
    """A server that holds an answer in its middle, where a test can act however fast or loaded the machine is: no pass
    computes the position that hold() names, or a later one, before release(). Positions count prompt and answer."""

    def __init__(self, *flags, **options):
        with contextlib.ExitStack() as folders:
            self._held = Path(folders.enter_context(tempfile.TemporaryDirectory())) / 'position'
            super().__init__(*flags, '--hold', self._held, **options)
            self._folders = folders.pop_all()

    def hold(self, position):
        written = self._held.with_suffix('.new')
        written.write_text(str(position), encoding='utf-8')
        written.replace(self._held)

    def release(self):
        self._held.unlink(missing_ok=True)

    def __exit__(self, *_):
        self.release()
        self.stop()
        self._folders.close()


class Answer:
    """The results of an ended outrider-edge: exit code, both outputs, the JSON line if there is one."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        lines = (out or '').strip().splitlines()  # no output if a test redirected it
        self.json = json.loads(lines[-1]) if lines and lines[-1].startswith('{') else None


class Edge:
    """An outrider-edge in the background."""

    def __init__(self, *arguments, environment=None, stdin=subprocess.PIPE,
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, under=()):
        """under: words before the program's name."""
        command = ending_with_us(*under, program_for('edge', arguments), *arguments)
        self.process = subprocess.Popen(command, text=True, errors='backslashreplace', stdin=stdin,
                                        env={**CLEAN_ENVIRONMENT, **(environment or {})},
                                        stdout=stdout, stderr=stderr)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def wait(self, stdin=None, seconds=ANSWER_SECONDS):
        try:
            out, err = self.process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise RuntimeError(f'outrider-edge hangs; it said:\n{out}\n{err}') from None
        return Answer(self.process.returncode, out, err)


def edge(*arguments, stdin=None, environment=None):
    """Runs outrider-edge to its end."""
    return Edge(*arguments, environment=environment).wait(stdin)
