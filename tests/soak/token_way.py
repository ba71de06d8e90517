#!/usr/bin/env python3
"""Through how many modules does a token go? Lists those whose code runs again for each further token of an answer.

  ./run soak token_way [--most 65] [--tokens 40,160]

An edge that drafts and a server with exits, built to count how often each line runs (preset coverage), give a short answer
and a long one of the same prompt. A module, which is a header and its source, is on the way if a line of it ran at least as
many times more as the long answer has more passes, less a tenth. What runs at the start, or by a clock, is left out.
Held: at most 65 modules of the edge, the server and what both share. Kernels and generated code are counted apart.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from edges import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, ending_with_us
from outcome import Outcome

MOST = 65
BUILD = BIN.parent
PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()


def answer(tokens, folder):
    """The passes of one answer; both programs leave their counts in the folder when they end."""
    environment = {**CLEAN_ENVIRONMENT, 'GCOV_PREFIX': str(folder), 'GCOV_PREFIX_STRIP': str(len(BUILD.parts) - 1)}
    server = subprocess.Popen(ending_with_us(BIN / 'outrider-server', '--model', TARGET, '--port', 0), stdout=subprocess.PIPE, text=True, env=environment)
    address = next(line for line in server.stdout if line.startswith('listening')).split()[1]
    done = subprocess.run(ending_with_us(BIN / 'outrider-edge', 'run', '--server', address, '--model', DRAFT, '-p', PROMPT, '-n', tokens, '--ignore-eos',
                                         '--json'), capture_output=True, text=True, check=False, env=environment)
    server.terminate()
    server.wait()
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])['target_passes']


def changed(short, long):
    """The counters' files that differ, or that only the long answer has."""
    for file in sorted(long.rglob('*.gcda')):
        other = short / file.relative_to(long)
        if not other.exists() or other.read_bytes() != file.read_bytes():
            yield file.relative_to(long)


def lines_run(folder, files):
    """{source: {line: times}} over all objects."""
    times = collections.defaultdict(collections.Counter)
    for file in files:
        if not (folder / file).exists():
            continue
        notes = (folder / file).with_suffix('.gcno')
        notes.exists() or notes.symlink_to(BUILD / file.with_suffix('.gcno'))
        said = subprocess.run(['gcov', '--json-format', '--stdout', folder / file], capture_output=True, check=True, cwd=BUILD).stdout
        for record in said.splitlines():
            for source in json.loads(record)['files']:
                for line in source['lines']:
                    times[source['file']][line['line_number']] += line['count']
    return times


def modules_on_the_way(short, long, passes):
    files = list(changed(short, long))
    before, after = lines_run(short, files), lines_run(long, files)
    for source, lines in after.items():
        path = Path(os.path.normpath(BUILD / source))
        if not path.is_relative_to(ROOT) or path.is_relative_to(ROOT / 'build'):
            continue
        most = max(count - before[source][line] for line, count in lines.items())
        if most >= 0.9 * passes:
            yield str(path.relative_to(ROOT).with_suffix('')), most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--most', type=int, default=MOST)
    parser.add_argument('--tokens', default='40,160', type=lambda text: [int(word) for word in text.split(',')])
    options = parser.parse_args()
    outcome = Outcome('token_way')
    with tempfile.TemporaryDirectory() as folder:
        short, long = Path(folder) / 'short', Path(folder) / 'long'
        passes = [answer(tokens, where) for tokens, where in zip(options.tokens, (short, long))]
        times = {}
        for module, most in modules_on_the_way(short, long, passes[1] - passes[0]):
            module = module.removesuffix('-inl')
            times[module] = max(most, times.get(module, 0))
    kernels = sorted(module for module in times if '/kernels/' in module)
    way = sorted(set(times) - set(kernels))
    for module in way:
        print(f'{times[module]:10d}  {module}', file=sys.stderr)
    outcome.figures |= {'passes': passes, 'modules': way, 'kernels': kernels}
    outcome.hold('modules on the way of a token', (len(way), len(way), len(way)), options.most, at_least=False)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
