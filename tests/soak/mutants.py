#!/usr/bin/env python3
"""Would the tests notice a fault? Sixty faults are drawn into decoding, HTTP and admission, one at a time, and the unit and
simulation tests of their folder run: a comparison that is off by one or turned round, another operator, a negated condition,
another constant, a statement left out.

  tests/soak/mutants.py [--mutants 60] [--seed 1] [--out found.json]
  tests/soak/mutants.py --again found.json   the faults that were found then are found now

The faults are made in a worktree of the commit at hand, in build/mutants, so the checkout stays as it is. A fault that does
not compile is drawn anew. Faults that change nothing that anybody could see are drawn too, so the share is below one.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
from pathlib import Path

from outcome import Outcome, bootstrap

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / 'build/mutants'
# Where faults are made, and the tests that should find them, the quickest first.
PARTS = {
    'common/decoding/tree': ('unit_tree', 'unit_verify', 'sim_verify', 'sim_decoding'),
    'common/decoding/drafting': ('unit_drafting', 'unit_trees', 'sim_decoding'),
    'common/decoding/verify': ('unit_verify', 'sim_verify', 'sim_decoding'),
    'common/decoding/protocol': ('unit_protocol', 'unit_verify', 'sim_verify'),
    'common/serving/http': ('unit_http',),
    'cloud_server/admission': ('unit_admission',),
}
CHANGES = [  # a pattern of code, and what takes its place
    (r' < (?=[\w(])', ' <= '), (r' <= ', ' < '), (r' > (?=[\w(])', ' >= '), (r' >= ', ' > '), (r' == ', ' != '), (r' != ', ' == '),
    (r' && ', ' || '), (r' \|\| ', ' && '), (r' \+ ', ' - '), (r' - ', ' + '), (r' \+= ', ' -= '), (r'\bif \((?!!|constexpr)(?=[^;]*\) )', 'if (!'),
    (r'\btrue\b', 'false'), (r'\bfalse\b', 'true'), (r'\bstd::min\b', 'std::max'), (r'\bstd::max\b', 'std::min'),
    (r'(?<![\w.\'])(?:1|2|8|16|64)(?![\w.\'])', '3'), (r'^ +\w[\w.>-]*\([^()]*\);$', ';'), (r'^ +\w[\w.>-]* [+]?= [^;]*;$', ';'),
]
SIM_SEEDS = '300'
BUILD_SECONDS, TEST_SECONDS = 900, 300
MIN_SHARE = 0.6  # of sixty: some faults change nothing that anybody could see


def code_of(text):
    """The text without comments, strings and preprocessor lines, each place where it was."""
    return re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|^#[^\n]*', lambda found: ' ' * len(found.group()), text, flags=re.M)


def places(part):
    """Every fault that can be made in a folder: file, the line's text, which of its equals, column, old and new text."""
    for path in sorted((ROOT / part).rglob('*.cc')):
        lines, seen = path.read_text(encoding='utf-8').split('\n'), {}
        for text, code in zip(lines, code_of('\n'.join(lines)).split('\n')):
            number = seen[text] = seen.get(text, -1) + 1
            for pattern, new in CHANGES:
                for found in re.finditer(pattern, code):
                    if 'OUTRIDER_' in text or 'static_assert' in text:
                        continue
                    yield {'part': part, 'file': str(path.relative_to(ROOT)), 'line': text, 'number': number, 'column': found.start(),
                           'old': found.group(), 'new': new}


class Tree:
    """A worktree with its own build, where one fault at a time is made."""

    def __init__(self):
        if not (TREE / '.git').exists():
            subprocess.run(['git', 'worktree', 'prune'], cwd=ROOT, check=True)
            subprocess.run(['git', 'worktree', 'add', '--force', '--detach', TREE], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(['git', 'checkout', '-q', '--force', '--detach', self._head()], cwd=TREE, check=True)
        for name in ('.venv', '.cache'):  # what ./run setup has installed
            if (ROOT / name).exists() and not (TREE / name).exists():
                (TREE / name).symlink_to(ROOT / name)
        self._run(['cmake', '--preset', 'release', '--log-level=WARNING', '-DOUTRIDER_TESTS=ON'], BUILD_SECONDS, must=True)

    @staticmethod
    def _head():
        return subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    @staticmethod
    def _run(command, seconds, must=False):
        environment = {**os.environ, 'OUTRIDER_SIM_SEEDS': SIM_SEEDS, 'OUTRIDER_STATE_DIR': 'none', 'GTEST_FAIL_FAST': '1'}
        try:
            done = subprocess.run(command, cwd=TREE, env=environment, timeout=seconds, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return False  # an endless loop is found, as in CI
        if must and done.returncode != 0:
            raise RuntimeError(f'{" ".join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}')
        return done.returncode == 0

    def builds(self, tests):
        return self._run(['cmake', '--build', 'build/release', '--target', *tests], BUILD_SECONDS)

    def passes(self, test):
        return self._run([f'build/release/tests/{test}'], TEST_SECONDS)

    def try_fault(self, fault):
        """'found' with the test that found it, 'missed', or None if it does not compile."""
        path = TREE / fault['file']
        before = path.read_text(encoding='utf-8')
        lines = before.split('\n')
        at = [i for i, line in enumerate(lines) if line == fault['line']][fault['number']]
        begin = fault['column']
        lines[at] = lines[at][:begin] + fault['new'] + lines[at][begin + len(fault['old']):]
        path.write_text('\n'.join(lines), encoding='utf-8')
        try:
            for test in PARTS[fault['part']]:
                if not self.builds([test]):
                    return None
                if not self.passes(test):
                    return f'found by {test}'
            return 'missed'
        finally:
            path.write_text(before, encoding='utf-8')


def drawn(random_, wanted, tree):
    """Faults that compile, of each part in turn, with their results."""
    left = {part: list(places(part)) for part in PARTS}
    parts = list(PARTS)
    while wanted > 0:
        part = parts[0]
        parts.append(parts.pop(0))
        fault = left[part].pop(random_.randrange(len(left[part])))
        result = tree.try_fault(fault)
        if result is not None:
            wanted -= 1
            yield fault, result


def still_there(faults):
    known = {json.dumps(place, sort_keys=True) for part in PARTS for place in places(part)}
    for fault in faults:
        place = {name: value for name, value in fault.items() if name != 'result'}
        if fault['result'] == 'missed':
            continue
        if json.dumps(place, sort_keys=True) in known:
            yield place
        else:
            print(f"gone with its line: {place['file']}: {place['line'].strip()}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--mutants', type=int, default=60)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--out', type=Path, help='where the faults and their results go')
    parser.add_argument('--again', type=Path, help='a file of --out')
    options = parser.parse_args()
    outcome, results = Outcome('mutants'), []
    tree = Tree()
    for tests in PARTS.values():
        if not tree.builds(tests) or not all(tree.passes(test) for test in tests):
            outcome.fail(f'{tests} fail without a fault')
            return outcome.finish()
    if options.again:
        faults = still_there(json.loads(options.again.read_text(encoding='utf-8')))
        tried = ((fault, tree.try_fault(fault)) for fault in faults)
    else:
        tried = drawn(random.Random(options.seed), options.mutants, tree)
    for fault, result in tried:
        results.append({**fault, 'result': result})
        print(f"{result}: {fault['file']}: {fault['line'].strip()}  [{fault['old'].strip()} -> {fault['new'].strip()}]", file=sys.stderr, flush=True)
        if options.again and result == 'missed':
            outcome.fail('a fault that was found before is missed')
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + '\n', encoding='utf-8')
    found = [float(one['result'] != 'missed') for one in results]
    outcome.figures |= {'mutants': len(found), 'found': int(sum(found))}
    if not options.again:
        outcome.hold('share of faults that are found', bootstrap(found, statistics.mean), MIN_SHARE)
    elif not results:
        outcome.mark_inconclusive('no fault of the file is still there')
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
