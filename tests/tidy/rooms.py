"""The tables of folders in README.md files, and ideas that stand in one place only.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re

from targets import TargetList
from tree import line_of, without_comments

MUST_HAVE_TABLES = ('README.md', 'common/README.md', 'edge_client/README.md', 'bench/README.md')


def folder_table(text):
    """(heading cells, {folder: cells}) of the table whose first column is headed 'folder'."""
    heading, rows = [], {}
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
        if not line.startswith('|'):
            inside = False
        elif cells[0].lower() == 'folder':
            inside, heading = True, [cell.lower() for cell in cells]
        elif inside and not set(cells[0]) <= set('-: '):
            for name in re.findall(r'`([^`]+)`', cells[0]):
                rows[name.rstrip('/')] = cells
    return heading, rows


def room_of(folder, prefix, rows):
    """Returns the name that a table in the folder `prefix` has for another folder: its own row, or else its top folder."""
    inside = folder[len(prefix):] if folder.startswith(prefix) else None
    if inside is None:
        return folder.split('/')[0]
    return max((row for row in rows if (inside + '/').startswith(row + '/')), key=len, default=inside)


def listed_rooms(targets, prefix, room, rows):
    """The rooms of the targets that the targets of a room list."""
    found = set()
    for target in targets:
        if room_of(target.folder, prefix, rows) == room and target.folder.startswith(prefix):
            others = filter(None, map(targets.get, target.public + target.private))
            found |= {room_of(other.folder, prefix, rows) for other in others}
    return found - {room}


def check_tables(tree):
    """A table of folders names those that are there, and its last column, headed 'includes', their lists."""
    targets = TargetList(tree)
    for readme in [path for path in tree.text if os.path.basename(path) == 'README.md']:
        heading, rows = folder_table(tree.text[readme])
        if not heading and readme not in MUST_HAVE_TABLES:
            continue
        prefix = readme[:-len('README.md')]
        inside = {path[len(prefix):].split('/')[0] for path in tree.paths
                  if path.startswith(prefix) and '/' in path[len(prefix):]}
        folders = {folder for folder in inside if not folder.startswith('.')}
        for folder in sorted(folders - set(rows)):
            yield readme, 1, f'the folder table lacks `{folder}`'
        for folder in sorted(rows):
            if not any(path.startswith(prefix + folder + '/') for path in tree.paths):
                yield readme, 1, f'the folder table lists `{folder}`, which is not there'
            elif heading[-1].startswith('includes'):
                said = set(re.findall(r'[\w/]+', rows[folder][-1])) - {'-'}
                lists = listed_rooms(targets, prefix, folder, rows)
                if said != lists:
                    yield readme, 1, f'`{folder}` includes {", ".join(sorted(lists)) or "-"}, by its CMakeLists.txt'


# Ideas that stand once: what code that repeats one would have to say, and the files that may say it.
OWNERS = [
    ('the times of the paper\'s table 9', r'\b(?:17\.94|7\.76)\b', r'(?:tests/unit/)?bench/paces/'),
    ('the assembly of an edge', r'\bDecodingOptions\b',
     r'edge_client/(?:session|generation)/|sim/|tests/(?:sim|unit/edge_client)/'),
    ('the loops that drive a decoding session', r'\bsession_?(?:\.|->)handle\(',
     r'edge_client/(?:shell/runner|failover/failover_session)\.|sim/sim_edge\.cc'),
    ('the keys of an answer\'s figures', r'"(?:ttft_ms|target_passes)"',
     r'edge_client/metrics/decoding_stats\.h|edge_client/report/|common/decoding/request/slo\.h|bench/report/|tests/unit/(?:edge_client/report|bench/(?:harness|report))/'),
    ('locks that clang cannot check', r'\bstd::(?:mutex|condition_variable\w*|(?:lock_guard|unique_lock|scoped_lock)\b)',
     r'common/base/mutex\.h|tests/'),
]


def check_owners(tree):
    for path in tree.code():
        code = without_comments(tree.text[path])
        for idea, symbol, owner in OWNERS:
            match = re.search(symbol, code)
            if match and not re.match(owner, path):
                yield path, line_of(code, match.start()), f'{match.group()}: {idea}: only in {owner}'


# Rivals and emulation belong to the laboratory (bench/lab), not to the shipped programs.
LABORATORY = re.compile(r'--(?:pace-(?:step-ms|pass-ms|exit-cost)|client-queue|server-queue|exit-score|flash-bandwidth|tree-widths)\b|'
                        r'\b(?:[Ss]pec_?[Ee]dge|[Pp]ico_?[Ss]pec|Ssd|ssd\b|PaceCurve|PacedModel|FixedWidths|TopNodes)|"(?:fixed|top-n)"')


def check_laboratory(tree):
    for path in tree.code():
        match = LABORATORY.search(tree.text[path]) if path.startswith(('edge_client/', 'cloud_server/')) else None
        if match:
            yield path, line_of(tree.text[path], match.start()), f'{match.group()}: belongs to bench/lab'


CHECKS = (check_tables, check_owners, check_laboratory)
