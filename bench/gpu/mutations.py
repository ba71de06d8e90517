#!/usr/bin/env python3
"""Shows that the tests of the CUDA kernels can fail: takes out each barrier, wait, bounds check, clamp and fused operation
in turn, and expects that the tests, by fibers, find it.

  mutations.py write TO      the kernels' sources, with all these places removable, and a list of them; the build calls it
  mutations.py run PROGRAM   the tests built of those, with each place removed; exit code 1 if they do not find one

All places are compiled at once; OUTRIDER_REMOVED=N removes one when the program starts. A barrier or a wait then does
nothing, a comparison has the value that lets the guarded work happen, a clamp gives its first operand, and a fused
multiply-add rounds twice.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = 'common/engine/model/cuda/kernels'
HEADERS = ['device.h', 'attention_tiles.h', 'quantized_rows.h', 'quantized_tiles.h']

# The tests that use a file come first; if they pass, all others follow.
FIRST = {'attention': 'Attention', 'choose': 'Choices', 'rowwise': 'RowsHave|HeadsGo', 'product_lanes': 'Products|LongSums',
         'product_many': 'Products|EveryCut|LongSums', 'product_few': 'EveryCut|LongSums|ManyBlocks'}

# Places without which results stay the same, as 'file: text', each with the reason.
NEEDLESS = {
    'attention.cu: (block + 1) * kBlock > seen.begin': 'what is not seen has a weight of 0',
    'attention.cu: at >= seen.begin': 'compares slots that nobody reads',
    'attention.cu: at + 32 >= seen.begin': 'compares slots that nobody reads',
    'attention.cu: thread / (kBlock / 4) < blocks': 'copies scores that nobody reads',
    'attention.cu: warp < look.count': 'finds maxima that nobody reads',
    'attention.cu: lane > 0': 'all lanes write the same',
    'attention_scores.cu: first >= look.lead.end': 'writes that nothing is seen, which nobody reads',
    'attention_scores.cu: slot >= 0': 'sums that nobody reads',
    'attention_scores.cu: larger(slot, 0)': 'nothing is read where no slot is',
    'product_few_rows.cu: 8 * tile >= rows': 'chains that nobody stores',
    'attention_tiles.h: smaller(row.num_common, lead.num_common)': 'of a session the lead has the longest list',
    'rowwise.cu: thread < kWarpLanes': 'all warps find the same, and one thread writes it',
    'device.h: fused(-n, 0x1.62ep-1f, bounded)': 'the product is exact',
    'choose.cu: amount > 0': 'adds nothing to a sum',
    'choose.cu: choice.min_p <= 0.0f': 'every weight is at least 0',
    'choose.cu: choice.top_p < 1.0f': 'all that can win have a weight',
    'choose.cu: thread_index() > 0': 'all threads write the same',
    'choose.cu: fused(r, z, 0x1.245c0ep-2f)': 'too small to show: in none of 33 million words',
    'choose.cu: fused(e, 0x1.62ep-1f, add(f, -add(half_square, -low)))': 'the product is exact',
    'choose.cu: fused(static_cast<float>(word >> 16), 65536.0f, add(static_cast<float>(word & 0xffffu), 0.5f))':
        'the product is exact',
}

KINDS = {'sync_threads': 'barrier', 'wait_copies': 'wait', 'fused': 'fused', 'smaller': 'clamp', 'larger': 'clamp'}
HELPERS = '''
inline const int removed_place = [] {
  const char* place = std::getenv("OUTRIDER_REMOVED");
  return place == nullptr ? -1 : std::atoi(place);
}();
inline bool is_removed(int place) { return place == removed_place; }
inline void sync_threads_at(int place) { if (!is_removed(place)) sync_threads(); }
template <unsigned kPending>
void wait_copies_at(int place) { if (!is_removed(place)) wait_copies<kPending>(); }
inline float fused_at(int place, float a, float b, float c) {
  return is_removed(place) ? add(multiply(a, b), c) : fused(a, b, c);
}
template <class T>
T smaller_at(int place, T a, T b) { return is_removed(place) || a < b ? a : b; }
template <class T>
T larger_at(int place, T a, T b) { return is_removed(place) || a > b ? a : b; }

'''


def host_code(text):
    """The text without comments, bounds, preprocessor lines and what only nvcc compiles, each place where it was."""
    text = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|OUTRIDER_BOUNDS\([^()]*\)', lambda found: ' ' * len(found.group()), text)
    lines, depth = [], 0  # depth: of conditions within what only nvcc compiles; 0: outside
    for line in text.split('\n'):
        if depth > 0:
            depth += line.startswith('#if') - line.startswith('#endif')
            if depth == 1 and line.startswith('#else'):
                depth = 0
        elif line.startswith('#ifdef __CUDACC__'):
            depth = 1
        lines.append(' ' * len(line) if depth > 0 or line.startswith('#') else line)
    return '\n'.join(lines)


def closing(code, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in '({[') - (code[i] in ')}]')
        if depth == 0:
            return i
    raise ValueError(f'no end of the bracket in: {code[at:at + 60]}')


def device_functions(code):
    """Ranges of functions that run on the device; larger() and smaller() are removed where they are called."""
    for head in re.finditer(r'\bOUTRIDER_(DEVICE|KERNEL)\b(?! T (?:larger|smaller)\()', code):
        at = head.end()
        while code[at] not in '{;':
            at = closing(code, at) + 1 if code[at] == '(' else at + 1
        if code[at] == '{':
            yield head.end(), closing(code, at)


def operand(code, at, step):
    """The end of an operand of a comparison, from beside the operator to the left (step -1) or right (1)."""
    opens, closes = (')]}', '([{') if step < 0 else ('([{', ')]}')
    depth, i = 0, at
    while True:
        depth += (code[i] in opens) - (code[i] in closes)
        ahead = code[i - 2:i + 1] if step < 0 else code[i:i + 3]
        ends = code[i] in ',;' or re.fullmatch(r'\s?(&&|\|\||[?:=])\s|\|\| |&& |rn ', ahead)
        if depth < 0 or (depth == 0 and ends):
            return i + 1 if step < 0 else i
        i += step


def comparison(code, at):
    """(begin, end, its value when removed) of the comparison whose operator is at `at`; None for a loop's only bound."""
    begin, end = operand(code, at - 1, -1), operand(code, at + 2, 1)
    begin += len(code[begin:]) - len(code[begin:].lstrip())
    end -= len(code[:end]) - len(code[:end].rstrip())
    statement = max(code.rfind(mark, 0, begin) for mark in ';{}') + 1
    opener = re.search(r'\b(if constexpr|if|while|static_assert)\s*\((?!.*\b(?:if|while)\s*\()', code[statement:begin], re.S)
    kind = opener.group(1) if opener else ''
    joined = re.match(r'\s*(&&|\|\|)', code[end:]) or re.search(r'(&&|\|\|)\s*$', code[:begin])
    in_for = re.search(r'\bfor \([^;{}]*;[^;{}]*$', code[:begin])
    if kind in ('if constexpr', 'static_assert') or ((in_for or kind == 'while') and not joined):
        return None
    leaves = False
    if kind == 'if':
        after = closing(code, code.index('(', statement + opener.start())) + 1
        leaves = re.match(r'\s*\{?\s*(return|continue|break)\b', code[after:])
    return begin, end, 'false' if leaves or (joined and joined.group(1) == '||') else 'true'


def places_of(text):
    """Every place of a file that can be removed: kind, where, text, and edits as (from, to, new text with {n})."""
    code = host_code(text)
    for begin, end in device_functions(code):
        for call in re.finditer(r'\b(sync_threads|wait_copies|fused|smaller|larger)(?:<\w[^>]*>)?\(', code[begin:end]):
            at, name, stop = begin + call.start(), call.group(1), begin + call.end()
            last = closing(code, stop - 1)
            yield KINDS[name], at, text[at:last + 1], [
                (at + len(name), at + len(name), '_at'), (stop, stop, '{n}' if last == stop else '{n}, ')]
        for operator in re.finditer(r' (?:<|>|<=|>=)\s(?=\S)', code[begin:end]):
            found = comparison(code, begin + operator.start() + 1)
            if found:
                first, last, value = found
                yield 'bound', first, text[first:last], [
                    (first, first, f'(is_removed({{n}}) ? {value} : ('), (last, last, '))')]


def write(to):
    places, folder = [], to / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted((ROOT / FOLDER).glob('*.cu')) + [ROOT / FOLDER / header for header in HEADERS]:
        text, edits = source.read_text(), []
        for kind, at, snippet, changes in places_of(text):
            edits += [(begin, end, new.format(n=len(places))) for begin, end, new in changes]
            places.append({'kind': kind, 'file': source.name, 'line': text.count('\n', 0, at) + 1,
                           'text': ' '.join(snippet.split())})
        if source.name == 'device.h':
            before = text.index('template <class T>\nOUTRIDER_DEVICE T larger(')
            edits.append((before, before, HELPERS))
        for begin, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
            text = text[:begin] + new + text[end:]
        name = source.stem + '.cc' if source.suffix == '.cu' else source.name
        (folder / name).write_text(text.replace('#include <cmath>', '#include <cmath>\n#include <cstdlib>', 1))
    (to / 'places.json').write_text(json.dumps(places, indent=1))


def passes(program, place, limit, tests='*'):
    """Whether the tests pass without a place. A crash and an endless loop count as found, as in CI."""
    environment = {**os.environ, 'OUTRIDER_REMOVED': str(place), 'GTEST_FAIL_FAST': '1', 'GTEST_FILTER': tests}
    try:
        return subprocess.run([program], env=environment, timeout=limit, capture_output=True).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def run(program, only, jobs):
    places = json.loads((program.parent / 'mutated/places.json').read_text())
    begin = time.monotonic()
    if not passes(program, -1, 900):
        sys.exit(f'mutations.py: {program} fails with nothing removed. Remedy: mend that first')
    limit = 10 * (time.monotonic() - begin) + 20

    def is_found(number):
        first = next((tests for name, tests in FIRST.items() if places[number]['file'].startswith(name)), '')
        chosen = ':'.join(f'*{test}*' for test in first.split('|'))
        return not passes(program, number, limit, chosen) or (first != '' and not passes(program, number, limit))

    numbers = [n for n, place in enumerate(places) if only in f"{place['file']}: {place['text']}"]
    counts, wrong = {}, 0
    with ThreadPoolExecutor(jobs) as pool:
        for number, found in zip(numbers, pool.map(is_found, numbers)):
            place = places[number]
            needless = f"{place['file']}: {place['text']}" in NEEDLESS
            counts.setdefault((place['file'], place['kind']), [0, 0, 0])[2 if needless else 0 if found else 1] += 1
            if found == needless:
                wrong += 1
                print('FOUND, and listed as needless' if found else 'NOT FOUND', number,
                      f"{place['file']}:{place['line']}: {place['kind']} {place['text']}", flush=True)
    print(f'{"file":22} {"kind":8} {"found":>6} {"not":>4} {"needless":>9}')
    for (file, kind), (found, missed, needless) in sorted(counts.items()):
        print(f'{file:22} {kind:8} {found:6} {missed:4} {needless:9}')
    print(f'{len(numbers)} places, {wrong} otherwise than expected, {time.monotonic() - begin:.0f} s')
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('verb', choices=['write', 'run'])
    parser.add_argument('path', type=Path, help='where to write, or the program')
    parser.add_argument('--only', default='', help='places whose "file: text" holds this')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.verb == 'write':
        return write(options.path)
    return run(options.path.resolve(), options.only, options.jobs)


if __name__ == '__main__':
    sys.exit(main())
