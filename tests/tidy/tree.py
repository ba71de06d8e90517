"""The project's files, and their text with comments or literals blanked out.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import subprocess

CODE = ('.h', '.cc', '.cu', '.cuh')
TEXT = CODE + ('.py', '.sh', '.js', '.css', '.html', '.md', '.txt', '.cmake', '.proto', '.json', '.yml', '.yaml', '')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+[<"]([^>"]+)[>"]', re.M)
COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)


class Tree:
    """The project's files (tracked, or new and not ignored) with their text."""

    def __init__(self, root):
        self.root = root
        listing = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', '-z'], cwd=root,
                                 check=True, capture_output=True).stdout.decode()
        self.paths = sorted(p for p in listing.split('\0') if p and os.path.isfile(os.path.join(root, p)))
        self.text = {}
        for path in self.paths:
            if os.path.splitext(path)[1] in TEXT and '/corpus/' not in path:
                with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
                    self.text[path] = file.read()

    def code(self):
        return [path for path in self.text if path.endswith(CODE)]

    def includes(self, path):
        """[(included name, line)] of a file."""
        text = self.text[path]
        return [(match.group(1), line_of(text, match.start())) for match in INCLUDE.finditer(text)]


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def blank(text):
    return re.sub(r'[^\n]', ' ', text)


def without_comments(text):
    """The same text, same line breaks, with C++ comments blanked out."""
    return COMMENT_OR_LITERAL.sub(lambda m: blank(m.group()) if m.group()[0] == '/' else m.group(), text)


def without_comments_and_strings(text):
    """The same text, same line breaks, with C++ comments and literals blanked out."""
    return COMMENT_OR_LITERAL.sub(
        lambda m: blank(m.group()) if m.group()[0] == '/' else '""' + re.sub(r'[^\n]', '', m.group()), text)


def code_lines(text):
    """How many lines hold code, that is, neither nothing nor only comments."""
    return sum(1 for line in without_comments(text).splitlines() if line.strip())
