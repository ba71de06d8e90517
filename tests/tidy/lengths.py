"""Lengths: of files, functions and header classes, of a class with all its files, and of a folder.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import os
import re

from tree import CODE, blank, without_comments, without_comments_and_strings

MAX_FILE, MAX_TEST_FILE, MAX_FUNCTION, MAX_CLASS = 400, 600, 70, 150
MAX_CLASS_WITH_FILES, MAX_MODULES, MAX_EXCEPTIONS = 250, 20, 5

# Headers whose class may be longer with all its files, each with the reason.
LONG_CLASSES = {}


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
    code = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', lambda m: blank(m.group()),
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


def code_lines(text):
    """Lines that hold code: no blank line, no line of comments only, and no preprocessor line."""
    return sum(1 for line in without_comments(text).splitlines() if line.strip() and not line.lstrip().startswith('#'))


def files_of_classes(tree, header):
    """The header and every .cc file of its folder that defines a member of a class of the header."""
    folder = os.path.dirname(header)
    names = re.findall(r'^(?:class|struct)\s+(\w+)[^;()=]*\{', without_comments_and_strings(tree.text[header]), re.M)
    member = re.compile(r'^(?:\w[^\n;=]*[\s*&])?(?:' + '|'.join(names or ['(?!)']) + r')::~?\w+(?:::~?\w+)*\s*\(', re.M)
    return [header] + [path for path in tree.code() if path.endswith('.cc') and os.path.dirname(path) == folder
                       and member.search(tree.text[path])]


def check_classes(tree):
    """A class stays one job: the lines of all the files in which it is declared and defined."""
    long = set()
    for header in tree.code():
        files = files_of_classes(tree, header) if header.endswith('.h') and not header.startswith('tests/') else []
        total = sum(code_lines(tree.text[path]) for path in files)
        if len(files) > 1 and total > MAX_CLASS_WITH_FILES:
            long.add(header)
            if header not in LONG_CLASSES:
                yield header, 1, f'class of {total} lines of code with all its files, limit {MAX_CLASS_WITH_FILES}'
    for header in LONG_CLASSES:
        if header in tree.text and header not in long:
            yield header, 1, 'no longer needs its exception in lengths.py'
    if len(LONG_CLASSES) > MAX_EXCEPTIONS:
        yield 'tests/tidy/lengths.py', 1, f'{len(LONG_CLASSES)} exceptions, limit {MAX_EXCEPTIONS}'


def check_folders(tree):
    modules = {}
    for path in tree.code():
        modules.setdefault(os.path.dirname(path), set()).add(os.path.splitext(os.path.basename(path))[0])
    for folder, names in modules.items():
        if len(names) > MAX_MODULES:
            yield folder, 1, f'{len(names)} modules, limit {MAX_MODULES}'


CHECKS = (check_lengths, check_classes, check_folders)
