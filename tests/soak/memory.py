#!/usr/bin/env python3
"""Two hundred concurrent edges on a server that a memory control group limits to 4 GB, with a model of 1 MiB of keys
and values per token. The server never ends for lack of memory, a session without room gets a time to come back, and
every answer equals that of an idle server.

  tests/soak/memory.py [--sessions 200] [--limit-mib 4096]

The model has random weights (32 layers, hidden size 512, 32 key-value heads of 128): only its sizes are
realistic. Needs a control group that this user may make (mostly root). Inconclusive (exit code 4) unless
sessions were refused for lack of room.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import contextlib
import functools
import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from edges import TARGET, Edge, Server
from outcome import Outcome

LAYERS, WIDTH, INNER, HEADS, HEAD_WIDTH = 32, 512, 512, 32, 128
GROUPS = Path('/sys/fs/cgroup')
MIB = 1 << 20
PROMPT = 'In view: silver bottle 20 degrees left at 2.1 m. Task: find the silver bottle. ' * 4
TOKENS = 8
ANSWER_SECONDS = 3600  # for one answer, most of it waiting for room
MOST_ABOVE_MIB = 300  # above weights and the bound of keys and values


def shapes(vocabulary):
    yield 'model.embed_tokens.weight', (vocabulary, WIDTH)
    yield 'model.norm.weight', (WIDTH,)
    for layer in range(LAYERS):
        for name, shape in (('input_layernorm', (WIDTH,)), ('post_attention_layernorm', (WIDTH,)),
                            ('self_attn.q_proj', (HEADS * HEAD_WIDTH, WIDTH)), ('self_attn.k_proj', (HEADS * HEAD_WIDTH, WIDTH)),
                            ('self_attn.v_proj', (HEADS * HEAD_WIDTH, WIDTH)), ('self_attn.o_proj', (WIDTH, HEADS * HEAD_WIDTH)),
                            ('mlp.gate_proj', (INNER, WIDTH)), ('mlp.up_proj', (INNER, WIDTH)), ('mlp.down_proj', (WIDTH, INNER))):
            yield f'model.layers.{layer}.{name}.weight', shape


@functools.cache
def random_block():
    """2 MiB of bf16 between 0.008 and 0.03 either way: any low byte, one of two high ones."""
    block = bytearray(random.Random(1).randbytes(2 * MIB))
    block[1::2] = bytes(0x3c | byte & 0x80 for byte in block[1::2])
    return bytes(block)


def random_weights(size):
    return (random_block() * (size // (2 * MIB) + 1))[:size]


def make_model(folder):
    """A Hugging Face directory; its tokenizer is the demo target's. Returns the bytes of its weights."""
    config = json.loads((TARGET / 'config.json').read_text(encoding='utf-8'))
    config.update(hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                  num_key_value_heads=HEADS, head_dim=HEAD_WIDTH)
    (folder / 'config.json').write_text(json.dumps(config), encoding='utf-8')
    for file in TARGET.glob('*token*'):
        shutil.copy(file, folder)
    header, at = {}, 0
    for name, shape in shapes(config['vocab_size']):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + 2 * count]}
        at += 2 * count
    text = json.dumps(header).encode()
    with open(folder / 'model.safetensors', 'wb') as out:
        out.write(len(text).to_bytes(8, 'little') + text)
        for tensor in header.values():
            begin, end = tensor['data_offsets']
            out.write(random_weights(end - begin))
    return at


class MemoryGroup:
    """A memory control group of its own, of either version."""

    def __init__(self, limit):
        first = GROUPS / 'memory'
        self.version = 1 if first.is_dir() else 2
        self.parent = first if self.version == 1 else GROUPS
        self.folder = self.parent / f'outrider-memory-{os.getpid()}'
        self.folder.mkdir()
        name = 'memory.limit_in_bytes' if self.version == 1 else 'memory.max'
        (self.folder / name).write_text(str(limit), encoding='ascii')

    @contextlib.contextmanager
    def around(self):
        """Programs started in the block stay in the group; this program leaves it again."""
        own = self._own()
        (self.folder / 'cgroup.procs').write_text(str(os.getpid()), encoding='ascii')
        try:
            yield
        finally:
            (own / 'cgroup.procs').write_text(str(os.getpid()), encoding='ascii')

    def _own(self):
        wanted = 'memory' if self.version == 1 else ''
        for line in Path('/proc/self/cgroup').read_text(encoding='ascii').splitlines():
            _, controllers, path = line.split(':', 2)
            if wanted in controllers.split(','):
                return self.parent / path.lstrip('/')
        return self.parent

    def kills(self):
        """Programs in this group that the kernel ended for lack of memory."""
        file = self.folder / ('memory.oom_control' if self.version == 1 else 'memory.events')
        found = re.search(r'^oom_kill (\d+)$', file.read_text(encoding='ascii'), re.M)
        return int(found.group(1)) if found else 0

    def remove(self):
        give_up = time.monotonic() + 10
        while True:
            try:
                return self.folder.rmdir()
            except OSError:  # the kernel is still removing the ended program
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)


def status_mib(process, what):
    status = Path(f'/proc/{process.pid}/status').read_text(encoding='ascii')
    return int(re.search(rf'^{what}:\s+(\d+)', status, re.M).group(1)) / 1024


def ask(server, seed):
    return Edge('run', '--strategy', 'ar', '--tokenizer', TARGET, '--server', server.address, '-p', PROMPT, '-n', TOKENS,
                '--temp', '1', '--seed', seed, '--json', '--threads', '1',
                '--reconnect-timeout', ANSWER_SECONDS).wait(seconds=ANSWER_SECONDS)


def run(options, outcome):
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weights = make_model(folder) / MIB
        group = MemoryGroup(options.limit_mib * MIB)
        stack.callback(group.remove)
        with group.around():
            server = Server('--max-concurrent-sessions', '256', '--max-queued-requests', '0', '--metrics-port', '0', '--max-model-len', '512', '--ignore-eos',
                            '--cache-dir', 'none', model=folder)
        stack.enter_context(server)
        bound = float(next(line.split() for line in server.log if 'kv memory' in line)[2])  # MiB
        at_start = status_mib(server.process, 'VmRSS')
        expected = {seed: ask(server, seed).json['ids'] for seed in range(4)}
        done, wrong, lock = 0, [], threading.Lock()

        def answer(number):
            nonlocal done
            got = ask(server, number % len(expected))
            with lock:
                done += 1
                print(f'{done}/{options.sessions} answers', file=sys.stderr, end='\r')
                if got.code != 0 or got.json is None:
                    wrong.append(f'exit code {got.code}: {got.err[-300:]}')
                elif got.json['ids'] != expected[number % len(expected)]:
                    wrong.append('other tokens')

        with concurrent.futures.ThreadPoolExecutor(options.sessions) as pool:
            list(pool.map(answer, range(options.sessions)))
        peak, refused, kills = status_mib(server.process, 'VmHWM'), server.metric('sessions_refused_total'), group.kills()
    print(file=sys.stderr)
    outcome.figures.update({'sessions': options.sessions, 'group_mib': options.limit_mib, 'weights_mib': round(weights, 1),
                            'kv_bound_mib': round(bound, 1), 'resident_at_start_mib': round(at_start, 1), 'peak_mib': round(peak, 1),
                            'refused': refused})
    for why in sorted(set(wrong)):
        outcome.fail(f'{wrong.count(why)} x {why}')
    if kills:
        outcome.fail(f'the kernel ended {kills} programs for lack of memory')
    if refused == 0:
        outcome.mark_inconclusive('no session was refused for lack of room')
    above = peak - weights - bound
    outcome.hold('MiB at the peak above weights and bound', (above, above, above), MOST_ABOVE_MIB, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sessions', type=int, default=200)
    parser.add_argument('--limit-mib', type=int, default=4096)
    outcome = Outcome('memory')
    run(parser.parse_args(), outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
