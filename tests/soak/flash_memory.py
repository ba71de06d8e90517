#!/usr/bin/env python3
"""Whether a target of several times the memory budget runs within the budget: a memory cgroup only slightly larger than the
budget never reaches its limit, and the peak stays near the budget.

  tests/soak/flash_memory.py [--to-bytes 2200MB --memory-budget 600MiB --cgroup-mib 700] [--keep DIR]

The target is the demo target as a larger model with the same logits (outrider-train inflate), in a pack. It decodes
twice, with one row per pass and with --rows of them, and both texts are compared with that of the small target with
everything in memory. Inconclusive (exit code 4) without a cgroup, if nothing was streamed, or if no pass had
that many rows. Needs root, and disk space for model and pack.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from edges import BIN, DRAFT, ROOT, TARGET, edge, pack
from outcome import Outcome

sys.path.insert(0, str(ROOT / 'tests/e2e'))
from devices import V2, Cgroup, cannot  # noqa: E402

MIB = 1 << 20
ABOVE = 1.10  # largest ratio of peak and budget


def inflated(folder, to_bytes):
    out = folder / 'inflated'
    if not (out / 'config.json').exists():
        subprocess.run([str(BIN / 'outrider-train'), 'inflate', '--model', str(TARGET), '--to-bytes', to_bytes, '--out', str(out)],
                       check=True, stdout=sys.stderr)
    return out


def times_refused(group):
    """How often the group's limit was reached."""
    if not V2:
        return int((group.path / 'memory.failcnt').read_text(encoding='ascii'))
    events = dict(line.split() for line in (group.path / 'memory.events').read_text(encoding='ascii').splitlines())
    return int(events['max'])


def peak_mib(group):
    return int((group.path / ('memory.peak' if V2 else 'memory.max_usage_in_bytes')).read_text(encoding='ascii')) / MIB


def decode(options, target, rows, common):
    """(the answer, times at the limit, MiB at the peak) of passes of that many rows."""
    way = ('--tokenizer', target, '--strategy', 'ar') if rows == 1 else (
        '--model', DRAFT, '--strategy', 'sd', '--tree', 'chain', '--spec-draft-n-max', rows - 1)
    with Cgroup('memory') as group:
        group.limit_memory(options.cgroup_mib * MIB)
        answer = group.run('run', '--mode', 'offline', '--target', target, '--memory-budget', options.memory_budget, *way, *common)
        return answer, times_refused(group), peak_mib(group)


def run(options, folder, outcome):
    target = pack(inflated(folder, options.to_bytes), options.dtype, folder / 'inflated.pack')
    common = ('-n', options.max_tokens, '-c', options.context, '--json', '-p',
              (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip())
    expected = edge('run', '--mode', 'offline', '--target', TARGET, '--tokenizer', TARGET, '--dtype', options.dtype, '--strategy', 'ar', *common).json
    budget = float(options.memory_budget.removesuffix('MiB'))
    outcome.figures.update({'pack_mib': os.path.getsize(target) / MIB, 'budget_mib': budget, 'cgroup_mib': options.cgroup_mib})
    for rows in (1, options.rows):
        answer, refused, peak = decode(options, target, rows, common)
        name = f'{rows} rows'
        if answer.code != 0 or answer.json is None:
            outcome.fail(f'{name}: exit code {answer.code}: {answer.err[-300:]}')
            continue
        record = answer.json
        if record['ids'] != expected['ids']:
            outcome.fail(f'{name}: another text')
        if not record['streamed'] or record['streamed']['bytes_read'] == 0:
            outcome.mark_inconclusive(f'{name}: nothing was streamed')
        widest = max(i + 1 for i, passes in enumerate(record['passes_by_rows']) if passes > 0)
        if widest < rows:
            outcome.mark_inconclusive(f'{name}: the widest pass had {widest}')
        outcome.figures[name] = {'times_refused': refused, 'peak_mib': peak, 'widest_pass': widest, 'tokens': len(record['ids']),
                                 'streamed_mib': (record['streamed'] or {}).get('bytes_read', 0) / MIB}
        outcome.hold(f'{name}: times the cgroup\'s limit was reached', (refused, refused, refused), 0, at_least=False)
        outcome.hold(f'{name}: MiB at the peak', (peak, peak, peak), ABOVE * budget, at_least=False)


def in_cgroup(options, outcome, run):
    """Runs if a control group can be made, in the folder to keep or in a temporary one. Returns the exit code."""
    why = cannot(Cgroup)
    if why:
        outcome.mark_inconclusive(why)
        return outcome.finish()
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        run(options, folder, outcome)
    return outcome.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--to-bytes', default='2200MB', help='of the inflated target\'s weights')
    parser.add_argument('--dtype', default='auto', help='of the pack')
    parser.add_argument('--memory-budget', default='600MiB')
    parser.add_argument('--cgroup-mib', type=int, default=700)
    parser.add_argument('--rows', type=int, default=33, help='of the wider passes')
    parser.add_argument('--max-tokens', type=int, default=64)
    parser.add_argument('--context', type=int, default=512)
    parser.add_argument('--keep', type=Path, help='folder for the inflated target and its pack; existing ones are reused')
    options = parser.parse_args()
    if not options.memory_budget.endswith('MiB'):
        parser.error(f'--memory-budget {options.memory_budget}: expected MiB, as 600MiB')
    return in_cgroup(options, Outcome('memory'), run)


if __name__ == '__main__':
    sys.exit(main())
