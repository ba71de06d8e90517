"""Our programs as these scripts run them: servers and packs as in the end-to-end tests, and edges whose
output is stamped with the time of reading.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/e2e'))

from programs import (BIN, CLEAN_ENVIRONMENT, DRAFT, FORGETFUL, TARGET, Edge, HeldServer, Server, edge, ending_with_us, eventually, free_port, is_sanitized, limit, make_certificate, new_key,  # noqa: E402
                      program_for, wait_until_served)

__all__ = ['BIN', 'CLEAN_ENVIRONMENT', 'DRAFT', 'Edge', 'FORGETFUL', 'HeldServer', 'ROOT', 'Server', 'StampedEdge', 'TARGET', 'edge', 'ending_with_us', 'eventually', 'free_port', 'is_sanitized', 'least_budget',
           'limit', 'make_certificate', 'new_key', 'pack', 'read_prompts', 'wait_until_served']


def pack(model, dtype, out):
    """The pack `out` of a model; an existing one is kept."""
    if not Path(out).exists():
        packed = edge('pack', '--model', model, '--dtype', dtype, '--out', out)
        if packed.code != 0:
            sys.exit(packed.err)
    return Path(out)


def least_budget(pack_file, *flags):
    """MiB of the smallest --memory-budget that an edge with these flags accepts."""
    refused = edge('run', '--target', pack_file, *flags, '--memory-budget', '1MiB')
    words = refused.err.split('at least ')
    if len(words) < 2:
        sys.exit(f'no least budget in: {refused.err}')
    return int(words[1].split()[0])


def read_prompts(path, count):
    prompts = []
    with open(path, encoding='utf-8') as lines:
        for line in lines:
            fields = json.loads(line)
            prompts.append(fields.get('prompt') or fields['turns'][0])
    if not prompts:
        sys.exit(f'{path}: no prompts')
    return prompts[:count] if count else prompts


class StampedEdge:
    """An outrider-edge in the background. `out` and `err` are lists of (time, text)."""

    def __init__(self, *arguments):
        self.began = time.monotonic()
        self.process = subprocess.Popen(ending_with_us(program_for('edge', arguments), *arguments), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN_ENVIRONMENT)
        self.out, self.err = [], []
        self.changed = threading.Condition()
        self.open = 2
        for stream, parts in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            threading.Thread(target=self._read, args=(stream, parts), daemon=True).start()

    def _read(self, stream, parts):
        while True:
            data = os.read(stream.fileno(), 1 << 16)
            now = time.monotonic()
            with self.changed:
                if data:
                    parts.append((now, data.decode('utf-8', 'replace')))
                else:
                    self.open -= 1
                self.changed.notify_all()
            if not data:
                return stream.close()

    def wait_until(self, condition, seconds):
        """Whether the condition became true before the program ended."""
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.open == 0, seconds)
            return condition()

    def text(self):
        return ''.join(part for _, part in self.out)

    def said(self, words):
        """When stderr first contained these words; None: it does not."""
        so_far = ''
        for at, part in self.err:
            so_far += part
            if words in so_far:
                return at
        return None

    def first_output_after(self, moment):
        return next((at for at, _ in self.out if at > moment), None)

    def wait(self, seconds=300):
        """(exit code, stdout before the JSON line, the JSON, stderr)."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = 'hangs'
        with self.changed:
            self.changed.wait_for(lambda: self.open == 0, 10)
        lines = self.text().rstrip('\n').rsplit('\n', 1)
        record = json.loads(lines[-1]) if lines[-1].startswith('{') else None
        shown = lines[0] if record is not None and len(lines) > 1 else ''
        return code, shown, record, ''.join(part for _, part in self.err)
