#!/usr/bin/env python3
"""Holds the sources to the house rules: one line per violation, exit code 1 if there is any.

  tests/tidy/tidy.py [ROOT]

What it knows: lengths of files, functions and header classes; SPDX lines; words and paths that must not be
committed; sources that no CMakeLists.txt names; folder tables against the disk; which folder may
include which; and that no source sees libtorch's headers together with protobuf's, gRPC's or spdlog's.
SPDX-License-Identifier: Apache-2.0
"""
import ast
import os
import re
import subprocess
import sys

MAX_FILE, MAX_TEST_FILE, MAX_FUNCTION, MAX_CLASS = 400, 600, 70, 150
CODE = ('.h', '.cc', '.cu', '.cuh')
TEXT = CODE + ('.py', '.sh', '.md', '.txt', '.cmake', '.proto', '.json', '.yml', '.yaml', '')
TOP_ORDER = ['common', 'proto', 'adapters', 'edge_client', 'cloud_server', 'bench', 'tests']

BANNED = [
    (re.compile(r'\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))'), 'open end without an issue, TODO(#12)'),
    (re.compile(r'(?<![\w.$}])/(?:home|root|work|opt)/\w'), 'path of somebody\'s machine'),
]
TORCH = re.compile(r'^(?:torch|ATen|c10|caffe2)/')
CLASHES = re.compile(r'^(?:google/protobuf|grpc|grpcpp|spdlog|fmt)/|\.pb\.h$')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.M)


class Tree:
    """The project's files (tracked, or new and not ignored) with their text."""

    def __init__(self, root):
        self.root = root
        listing = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', '-z'], cwd=root,
                                 check=True, capture_output=True).stdout.decode()
        self.paths = sorted(p for p in listing.split('\0') if p and os.path.isfile(os.path.join(root, p)))
        self.text = {}
        for path in self.paths:
            if os.path.splitext(path)[1] in TEXT and '/corpus/' not in path and not path.endswith('.jsonl'):
                with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
                    self.text[path] = file.read()

    def code(self):
        return [path for path in self.text if path.endswith(CODE)]


def without_comments_and_strings(text):
    """The same text, same line breaks, with comments and literals blanked out."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|'
        r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)
    return pattern.sub(lambda m: '""' + re.sub(r'[^\n]', '', m.group()) if m.group()[0] != '/'
                       else re.sub(r'[^\n]', ' ', m.group()), text)


def scope_kind(header, outer):
    """What a '{' after `header` opens: namespace, class, function, or other (inside functions all is other)."""
    if outer not in ('namespace', 'class'):
        return 'other'
    if header.count('(') > header.count(')') or re.search(r'\)\s*:[^:].*[\w>]$', header, re.S):
        return 'value'  # a brace in a default argument or a constructor's initialiser list
    if re.search(r'\bnamespace\b[\w:\s]*$', header) or header.endswith('extern ""'):
        return 'namespace'
    if re.search(r'\b(?:class|struct|union|enum)\b[^()=]*$', header):
        return 'class'
    return 'function' if '(' in header and not re.search(r'=\s*$', header) else 'other'


def scopes(text):
    """Yields (kind, first line, last line) for classes and functions, line numbers from 1."""
    code = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', lambda m: re.sub(r'[^\n]', ' ', m.group()),
                  without_comments_and_strings(text), flags=re.M)
    stack = [('namespace', 1)]
    start, line, header_line, kind = 0, 1, None, None
    for at, char in enumerate(code):
        if char == '\n':
            line += 1
        elif header_line is None and not char.isspace() and char not in '{};':
            header_line = line
        if char == '{':
            kind = scope_kind(code[start:at].lstrip(), stack[-1][0])
            stack.append((kind, header_line or line))
        elif char == '}' and len(stack) > 1:
            kind, first = stack.pop()
            if kind in ('class', 'function'):
                yield kind, first, line
        if char in '{};' and kind != 'value':
            start, header_line = at + 1, None
        if char == '}':
            kind = stack[-1][0]


def check_lengths(tree):
    for path, text in tree.text.items():
        if not path.endswith(CODE + ('.py', '.sh', '.cmake')):
            continue
        limit = MAX_TEST_FILE if path.startswith('tests/') else MAX_FILE
        lines = text.count('\n')
        if lines > limit:
            yield path, 1, f'{lines} lines, limit {limit}'
        if path.endswith(CODE):
            found = scopes(text)
        elif path.endswith('.py'):
            found = ((('class' if isinstance(node, ast.ClassDef) else 'function'), node.lineno, node.end_lineno)
                     for node in ast.walk(ast.parse(text))
                     if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
        else:
            continue
        for kind, first, last in found:
            if kind == 'class' and (not path.endswith('.h') or path.startswith('tests/')):
                continue  # a class of one file's own is bounded by the file
            allowed = MAX_FUNCTION if kind == 'function' else MAX_CLASS
            if last - first + 1 > allowed:
                yield path, first, f'{kind} of {last - first + 1} lines, limit {allowed}'


def check_words(tree):
    for path, text in tree.text.items():
        if path.endswith(CODE + ('.proto', '.py')) and 'SPDX-License-Identifier: Apache-2.0' not in text:
            yield path, 1, 'no SPDX-License-Identifier line'
        for pattern, meaning in BANNED:
            for match in pattern.finditer(text):
                if path != 'tests/tidy/tidy.py':
                    yield path, text.count('\n', 0, match.start()) + 1, f'{meaning}: {match.group()!r}'


def check_built(tree):
    """Every source stands in the CMakeLists.txt of its folder or of one above it."""
    for path in tree.paths:
        if not path.endswith(('.cc', '.cu')):
            continue
        folder, name = os.path.split(path)
        named = False
        while not named:
            relative = os.path.relpath(path, folder or '.')
            cmake = tree.text.get(os.path.join(folder, 'CMakeLists.txt'), '')
            words = [relative]
            if name.endswith('_fuzz.cc'):
                words.append(f'outrider_fuzz({name[:-len("_fuzz.cc")]}')
            named = any(re.search(r'(?<![\w/])' + re.escape(word) + r'(?!\w)', cmake) for word in words)
            if not folder:
                break
            folder = os.path.dirname(folder)
        if not named:
            yield path, 1, 'no CMakeLists.txt names this file'


def folder_table(text):
    """{folder: cells} of the table whose first column is headed 'folder'."""
    rows, inside = {}, False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
        if not line.startswith('|'):
            inside = False
        elif cells[0].lower() == 'folder':
            inside = True
        elif inside and not set(cells[0]) <= set('-: '):
            for name in re.findall(r'`([^`]+)`', cells[0]):
                rows[name.rstrip('/')] = cells
    return rows


def check_tables(tree):
    for readme, prefix in (('README.md', ''), ('common/README.md', 'common/')):
        on_disk = {path[len(prefix):].split('/')[0] for path in tree.paths
                   if path.startswith(prefix) and '/' in path[len(prefix):]}
        on_disk = {folder for folder in on_disk if not folder.startswith('.')}
        listed = set(folder_table(tree.text.get(readme, '')))
        for folder in sorted(on_disk - listed):
            yield readme, 1, f'the folder table lacks `{folder}`'
        for folder in sorted(listed - on_disk):
            yield readme, 1, f'the folder table lists `{folder}`, which is not there'


def project_includes(text):
    return [(name, text.count('\n', 0, match.start()) + 1)
            for match in INCLUDE.finditer(text) for name in [match.group(2)]]


def may_include(includer, included, allowed_in_common):
    """Whether a file may include another, by their top folders and the table of common/README.md."""
    top, other = includer.split('/')[0], included.split('/')[0]
    if 'tests' in (top, other):
        return top == 'tests'
    if top == 'common' and other == 'common':
        mine, theirs = includer.split('/')[1], included.split('/')[1]
        return mine == theirs or theirs in allowed_in_common.get(mine, ())
    if {top, other} == {'edge_client', 'cloud_server'}:
        return False
    return TOP_ORDER.index(other) <= TOP_ORDER.index(top)


def check_includes(tree):
    table = folder_table(tree.text.get('common/README.md', ''))
    allowed = {folder: re.findall(r'\w+', cells[-1]) for folder, cells in table.items()}
    for path in tree.code():
        for name, line in project_includes(tree.text[path]):
            if name in tree.text and path.split('/')[0] in TOP_ORDER and not may_include(path, name, allowed):
                yield path, line, f'may not include {name}'


def check_clashes(tree):
    """No source sees torch's headers together with protobuf's, gRPC's or spdlog's, by any way."""
    def reach(path, seen):
        for name, _ in project_includes(tree.text[path]):
            if name in seen:
                continue
            seen.add(name)
            if name in tree.text:
                reach(name, seen)
        return seen

    for path in tree.code():
        if not path.endswith(('.cc', '.cu')):
            continue
        names = reach(path, set())
        torch = next((n for n in names if TORCH.search(n)), None)
        clash = next((n for n in names if CLASHES.search(n)), None)
        if torch and clash:
            yield path, 1, f'sees {torch} and {clash}'


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '../..')
    tree = Tree(root)
    checks = (check_lengths, check_words, check_built, check_tables, check_includes, check_clashes)
    violations = [violation for check in checks for violation in check(tree)]
    for path, line, problem in sorted(violations):
        print(f'{path}:{line}: {problem}')
    print(f'tidy: {len(tree.paths)} files, {len(violations)} violations')
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())
