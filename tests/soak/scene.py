"""A server over TLS, the link to it, and the decoding edges; faults.py applies faults to them.

SPDX-License-Identifier: Apache-2.0
"""
import platform
import random
import subprocess
import tempfile
import time
from pathlib import Path

from authority import Authority
from edges import ROOT, Server, free_port, limit, new_key, read_prompts
from load import Load
from tcp_link import TcpLink

EXTRA = 4  # places for additional edges
PACE_MS = 4  # of a pass
SETTLE_SECONDS = 20  # to reconnect edges, detect lost ones and read certificates again
BEGINNINGS = 20  # attempts to catch an edge in the middle of its answer
IN_THE_MIDDLE = 2  # edges at least, so that a fault interrupts one even if another just ends
GREEDY_SESSIONS = 2  # that the greedy tenant may have
FAKE_TIME = Path(f'/usr/lib/{platform.machine()}-linux-gnu/faketime/libfaketimeMT.so.1')


def met(condition):
    """The first true result of `condition`; False if there was none in time."""
    give_up = time.monotonic() + SETTLE_SECONDS
    while not (found := condition()):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return found


class Scene:
    """`server`, `link`, `load`; `source` draws moments. Every edge has a key: the load's, or a greedy tenant's."""

    def __init__(self, options):
        self.source = random.Random(options.seed)
        self.folder = tempfile.TemporaryDirectory()
        here = Path(self.folder.name)
        self.authority = Authority(here)
        self.greedy_key = here / 'greedy'
        self.small_disk = self._mount() if 'disk' in options.faults else None
        self.clock = self._fake_clock() if 'clock' in options.faults else None
        log = ('--log-file', self.small_disk / 'log') if self.small_disk else ()
        self.flags = ('--metrics-port', '0', *log, *self.authority.server_flags(), '--token-file', self._tokens(),
                      '--max-concurrent-sessions', options.sessions + EXTRA, '--max-queued-requests', 2)
        self.server = self._start(port=free_port())
        self.link = TcpLink(self.server.port)
        prompts = read_prompts(options.prompts, 6) if options.prompts else [
            (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip(), 'Bring the green cup.', 'Why is the sky blue?']
        self.load = Load(self.link.address, prompts, options.sessions, options.max_tokens, options.seed,
                         here / 'load', '--tls-ca', self.authority.ca)

    def _tokens(self):
        tokens = Path(self.folder.name) / 'tokens'
        for tenant in ('load', 'greedy'):
            key = tokens.with_name(tenant)
            key.touch(0o600)
            key.write_text(new_key(tokens, tenant), encoding='ascii')
        limit(tokens, f'sessions={GREEDY_SESSIONS}')
        return tokens

    def _mount(self):
        """A disk of 4 MB; None if this user may not mount one."""
        disk = Path(self.folder.name) / 'disk'
        disk.mkdir()
        mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m', 'small', disk], capture_output=True, check=False)
        return disk if mounted.returncode == 0 else None

    def _fake_clock(self):
        """The file with the error of the server's wall clock; None without Debian's faketime."""
        clock = Path(self.folder.name) / 'clock'
        clock.write_text('+0', encoding='ascii')
        return clock if FAKE_TIME.exists() else None

    def _start(self, *flags, port, pace_ms=PACE_MS):
        fake = {'LD_PRELOAD': str(FAKE_TIME), 'FAKETIME_TIMESTAMP_FILE': str(self.clock), 'FAKETIME_NO_CACHE': '1',
                'FAKETIME_DONT_FAKE_MONOTONIC': '1'} if self.clock else None
        return Server(*self.flags, '--pace-pass-ms', pace_ms, *flags, port=port, environment=fake)

    def end(self):
        self.load.stop()
        self.link.close()
        self.server.stop()
        if self.small_disk:
            subprocess.run(['umount', self.small_disk], check=True)
        self.folder.cleanup()

    def restart(self, *flags, pace_ms=PACE_MS):
        self.server = self._start(*flags, pace_ms=pace_ms, port=self.server.port)

    def wait_for_answers(self):
        """Until edges are in the middle of their answers: where all of them still start, a fault interrupts none."""
        met(lambda: self.server.metric('num_requests_running') >= IN_THE_MIDDLE)

    def begin_long(self):
        """One more edge: (edge, prompt, way), in the middle of its answer; None if all answers ended too soon."""
        for _ in range(BEGINNINGS):
            prompt, way = self.load.draw(self.source)
            edge = self.load.begin(prompt, way)
            time.sleep(0.3)
            if edge.process.poll() is None:
                return edge, prompt, way
            self.load.end(edge, prompt, way)
        return None

    def last_log_line(self):
        """The server's log: on the terminal, or on the small disk."""
        lines = (self.small_disk / 'log').read_text(encoding='utf-8').splitlines() if self.small_disk else self.server.log
        return lines[-1] if lines else ''

    def reconnected(self, before):
        """Whether edges reconnected since this count of reconnects."""
        return met(lambda: self.load.reconnects > before)
