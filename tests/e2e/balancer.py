"""The real HAProxy with deploy/haproxy.cfg, before servers that tests kill, drain and start again on their ports.

SPDX-License-Identifier: Apache-2.0
"""
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

from programs import CLEAN_ENVIRONMENT, ROOT, Server, ending_with_us, free_port, make_certificate

NAMES = ('one', 'two', 'three', 'four')  # as the servers are called in deploy/haproxy.cfg
HAPROXY = shutil.which('haproxy') or shutil.which('haproxy', path='/usr/sbin')
MISSING = None if HAPROXY and shutil.which('openssl') else 'needs haproxy and openssl (Debian packages)'


def wait_for_port(port, seconds=10):
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with socket.socket() as probe:
            if probe.connect_ex(('127.0.0.1', port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f'nothing listens on port {port}')


class Proxied:
    """A server on fixed ports, so that it can come back after it was killed."""

    def __init__(self, *flags, port=None, http=None, **options):
        self.port, self.http, self.flags, self.options = port or free_port(), http or free_port(), flags, options
        self.start()

    def start(self):
        self.server = Server('--http-port', self.http, '--metrics-port', 0, '--max-calls-per-peer', 0, *self.flags, port=self.port,
                             **self.options)

    def wait_for_sessions(self, number, seconds=30):
        give_up = time.monotonic() + seconds
        while self.server.metric('num_requests_running') < number:
            if time.monotonic() > give_up:
                raise RuntimeError(f'no {number} sessions at once within {seconds} s')
            time.sleep(0.02)


class Balancer:
    """HAProxy, listening when the constructor returns. Its certificate is `cert`, which edges trust."""

    def __init__(self, folder, servers=(), certificate=None, **environment):
        """environment: OUTRIDER_* of deploy/haproxy.cfg, without the first word."""
        here = Path(folder)
        self.cert, key = certificate or make_certificate(here)
        both = here / 'both.pem'
        both.write_text(self.cert.read_text(encoding='utf-8') + key.read_text(encoding='utf-8'), encoding='utf-8')
        self.port = free_port()
        self.address = f'127.0.0.1:{self.port}'
        self.edge_flags = ('--server', self.address, '--tls-ca', self.cert)
        given = {'LISTEN': self.address, 'CERT': both, **environment}
        for number, one in enumerate(servers, start=1):
            given[f'{number}'] = f'127.0.0.1:{one.port}'
            given[f'{number}_HTTP'] = f'127.0.0.1:{one.http}'
        # HAProxy shares this file's offset, which log() moves: it has to append.
        self._log = open(here / 'haproxy.log', 'a+', encoding='utf-8')
        self._process = subprocess.Popen(ending_with_us(HAPROXY, '-f', ROOT / 'deploy/haproxy.cfg', '-db'), stdout=self._log, stderr=self._log,
                                         env={**CLEAN_ENVIRONMENT, **{f'OUTRIDER_{name}': str(value) for name, value in given.items()}})
        wait_for_port(self.port)

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def served_by(self, backend='servers'):
        """The names of the servers to which it led streams of answers (backend openai: completions), in order of their ends."""
        path = {'servers': '/Generate', 'openai': '/v1/completions'}[backend]
        return re.findall(rf' {backend}/({"|".join(NAMES)}|pod\d+) .*{path} ', self.log())

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._log.close()
