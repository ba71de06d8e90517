"""Documents: how long they are, and that the files, links and figures which they name are there.

SPDX-License-Identifier: Apache-2.0
"""
import fnmatch
import os
import re
import sys

from tree import line_of

RESULTS, PAPERS = 'bench/results', 'bench/paper'
for made_by in (RESULTS, PAPERS):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..', made_by))
import page as results_page  # found by the lines above
import papers as papers_page

# Counted as `wc -w` does, tables and their bars included.
MAX_PAGE, MAX_README, MAX_SENTENCE = 1800, 900, 45
LINK = re.compile(r'\]\(([^()\s]+)\)')
NAMED = re.compile(r'`([\w.*-]+(?:/[\w.*-]+)+/?)`')
SOURCE = ('.h', '.cc', '.cu', '.py', '.proto')
# Not in the repository: built, or fetched by ./run model.
MADE = ('build/', 'models/smollm2/')
CITED = re.compile(r'\bdocs/[\w-]+\.(?:md|svg)')
FIGURE = re.compile(r'(-?\d[\d.,]*)(?: ?(?:%|[a-zA-Z]+))?\*{0,2} \[(-?[\d.]+), (-?[\d.]+)\]')


def words(text):
    return len(text.split())


def pages(tree):
    """README.md, the pages of docs, and the laboratory's beside its code."""
    return [path for path in tree.text if path == 'README.md' or re.fullmatch(r'(?:docs|bench|emulation)/.+\.md', path)]


def check_words(tree):
    for path in pages(tree):
        found, limit = words(tree.text[path]), MAX_README if path == 'README.md' else MAX_PAGE
        if found > limit:
            yield path, 1, f'{found} words, limit {limit}'


def without_code_blocks(text):
    """The same text, same line breaks, without fenced blocks."""
    return re.sub(r'^( *)```.*?^\1```', lambda m: re.sub(r'[^\n]', '', m.group()), text, flags=re.M | re.S)


def sentences(text):
    """(line, sentence) of a page's prose: tables, code and headings aside."""
    prose = re.sub(r'^(?: {4}| *\||#).*$', '', without_code_blocks(text), flags=re.M)
    for paragraph in re.finditer(r'(?:^(?!\s*$).*\n?)+', prose, re.M):
        at = paragraph.start()
        for part in re.split(r'((?<=[.!?:;])\s+|\n(?=\s*(?:[-*]|\d+\.) ))', paragraph.group()):
            yield line_of(prose, at), part
            at += len(part)


def check_sentences(tree):
    for page in [path for path in tree.text if path.endswith('.md')]:
        for line, sentence in sentences(tree.text[page]):
            if words(sentence) > MAX_SENTENCE:
                yield page, line, f'a sentence of {words(sentence)} words, limit {MAX_SENTENCE}'


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    for heading in re.findall(r'^#+ +(.+)$', without_code_blocks(text), re.M):
        plain = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading).lower()
        yield re.sub(r'[^\w\- ]', '', plain).replace(' ', '-')


def check_links(tree):
    """A relative link leads to a file or folder that is there, and to a heading that it has."""
    folders = {os.path.dirname(path) for path in tree.paths}
    for page in [path for path in tree.text if path.endswith('.md')]:
        text = without_code_blocks(tree.text[page])
        for match in LINK.finditer(text):
            target, _, anchor = match.group(1).partition('#')
            if re.match(r'\w+:', target):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
            is_there = path in tree.paths or any((folder + '/').startswith(path + '/') for folder in folders)
            if not is_there:
                yield page, line_of(text, match.start()), f'links to {match.group(1)}, which is not there'
            elif anchor and anchor not in anchors(tree.text.get(path, '')):
                yield page, line_of(text, match.start()), f'links to {match.group(1)}, a heading that is not there'


def check_named_files(tree):
    """A file or folder that a page names by its path is there."""
    top = {path.split('/')[0] for path in tree.paths if '/' in path}
    prefixes = {'/'.join(parts[:n]) for parts in (path.split('/') for path in tree.paths)
                for n in range(1, len(parts) + 1)}
    for page in [path for path in tree.text if path.endswith('.md')]:
        text, folder = without_code_blocks(tree.text[page]), os.path.dirname(page)
        for match in NAMED.finditer(text):
            name = match.group(1).rstrip('/')
            inner = os.path.normpath(os.path.join(folder, name))
            is_path = name.split('/')[0] in top or name.endswith(SOURCE)
            if not is_path or name.startswith(MADE) or name in prefixes or inner in prefixes:
                continue
            if '*' not in name or not fnmatch.filter(prefixes, name):
                yield page, line_of(text, match.start()), f'names {name}, which is not there'


def check_cited_pages(tree):
    """A comment that names a page of docs names one that is there."""
    for path, text in tree.text.items():
        for match in CITED.finditer(text) if not path.startswith('tests/tidy/') else ():
            if match.group() not in tree.paths:
                yield path, line_of(text, match.start()), f'names {match.group()}, which is not there'


def check_results(tree):
    """docs/results.md is what bench/results says, and a page's figures with intervals are among them."""
    folder = os.path.join(tree.root, RESULTS)
    if not os.path.isdir(folder):
        return
    try:
        made = results_page.page(folder)
    except results_page.BadResult as bad:
        yield RESULTS, 1, str(bad)
        return
    if tree.text.get('docs/results.md') != made:
        yield 'docs/results.md', 1, 'not what bench/results/page.py makes of the files beside it: run it'
    known = results_page.intervals(folder)
    for page in [path for path in tree.text if path.endswith('.md') and path != 'docs/results.md']:
        text = without_code_blocks(tree.text[page])
        for match in FIGURE.finditer(text):
            if match.groups() not in known:
                yield page, line_of(text, match.start()), f'{match.group()} is in no file of {RESULTS}'


def check_papers(tree):
    """docs/papers.md is what the lists beside bench/paper/papers.py say."""
    folder = os.path.join(tree.root, PAPERS)
    if not os.path.exists(os.path.join(folder, 'papers.json')):
        return
    try:
        made = papers_page.page(folder)
    except papers_page.BadList as bad:
        yield 'bench/paper/papers.json', 1, str(bad)
        return
    if tree.text.get('docs/papers.md') != made:
        yield 'docs/papers.md', 1, 'not what bench/paper/papers.py makes of the files beside it: run it'


CHECKS = (check_words, check_sentences, check_links, check_named_files, check_cited_pages, check_results, check_papers)
