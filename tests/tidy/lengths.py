"""Sizes: of files and functions, of a class with all its files, of a folder, and of modules that are too small.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import os
import re

from tree import CODE, blank, without_comments, without_comments_and_strings

MAX_FILE, MAX_TEST_FILE, MAX_FUNCTION = 500, 600, 70
MAX_CLASS_WITH_FILES, MAX_MODULES, MIN_MODULE = 600, 30, 40

# Modules of less than MIN_MODULE lines of code with one user that stay apart, each with the reason.
SMALL_MODULES = {
    'cloud_server/admission/auth_failure_limiter': 'pure arithmetic, tested without a clock',
    'edge_client/flash/memory_ring': 'pure arithmetic, tested without a disk',
}


def scope_kind(header, outer):
    """Returns the kind of scope that a '{' after `header` opens: namespace, class, function, or other, as all inside functions is."""
    if outer not in ('namespace', 'class'):
        return 'other'
    if header.count('(') > header.count(')') or re.search(r'\)\s*:[^:].*[\w>]$', header, re.S):
        return 'value'  # a brace in a default argument or a constructor's initialiser list
    if re.search(r'\bnamespace\b[\w:\s]*$', header) or header.endswith('extern ""'):
        return 'namespace'
    if re.search(r'\b(?:class|struct|union|enum)\b[^()=]*$', header):
        return 'class'
    return 'function' if '(' in header and not re.search(r'=\s*$', header) else 'other'


def functions(text):
    """Yields the (first line, last line) of each function, line numbers from 1."""
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
            if kind == 'function':
                yield first, line
        if char in '{};' and kind != 'value':
            start, header_line = at + 1, None
        if char == '}':
            kind = stack[-1][0]


def check_lengths(tree):
    for path, text in tree.text.items():
        if not path.endswith(CODE + ('.py', '.sh', '.js', '.css', '.html', '.cmake')):
            continue
        limit = MAX_TEST_FILE if path.startswith('tests/') else MAX_FILE
        lines = text.count('\n')
        if lines > limit:
            yield path, 1, f'{lines} lines, limit {limit}'
        if path.endswith(CODE):
            found = functions(text)
        elif path.endswith('.py'):
            found = ((node.lineno, node.end_lineno) for node in ast.walk(ast.parse(text))
                     if isinstance(node, ast.FunctionDef))
        else:
            continue
        for first, last in found:
            if last - first + 1 > MAX_FUNCTION:
                yield path, first, f'function of {last - first + 1} lines, limit {MAX_FUNCTION}'


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
    """A class does one job: the lines of all the files in which it is declared and defined."""
    for header in tree.code():
        files = files_of_classes(tree, header) if header.endswith('.h') and not header.startswith('tests/') else []
        total = sum(code_lines(tree.text[path]) for path in files)
        if len(files) > 1 and total > MAX_CLASS_WITH_FILES:
            yield header, 1, f'class of {total} lines of code with all its files, limit {MAX_CLASS_WITH_FILES}'


def module_of(path):
    """A header and its source are one module, named by their path without the ending."""
    return re.sub(r'-inl$', '', os.path.splitext(path)[0])


def check_small_modules(tree):
    """A module of less than a screen that one other module uses belongs inside that one."""
    modules, users = {}, {}
    for path in tree.code():
        if not path.startswith('tests/'):
            modules.setdefault(module_of(path), []).append(path)
            for included, _ in tree.includes(path):
                users.setdefault(module_of(included), set()).add(module_of(path))
    for module, files in modules.items():
        total = sum(code_lines(tree.text[path]) for path in files)
        others = users.get(module, set()) - {module}
        is_small = total < MIN_MODULE and len(others) == 1
        if is_small and module not in SMALL_MODULES:
            yield files[0], 1, f'{total} lines of code that only {others.pop()} uses: merge them, or say why not in lengths.py'
        if not is_small and module in SMALL_MODULES:
            yield files[0], 1, 'no longer needs its exception in lengths.py'
    for module in SMALL_MODULES.keys() - modules.keys():
        if 'tests/tidy/lengths.py' in tree.text:
            yield 'tests/tidy/lengths.py', 1, f'an exception names {module}, which is not there'


def check_folders(tree):
    modules = {}
    for path in tree.code():
        modules.setdefault(os.path.dirname(path), set()).add(module_of(path))
    for folder, names in modules.items():
        if len(names) > MAX_MODULES:
            yield folder, 1, f'{len(names)} modules, limit {MAX_MODULES}'


CHECKS = (check_lengths, check_classes, check_small_modules, check_folders)
