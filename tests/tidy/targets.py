"""The targets that the CMakeLists.txt files declare: what each holds and which targets it lists.

Reads the verbs of cmake/OutriderBuild.cmake in the order in which CMake does. Conditions are not
evaluated: every branch counts, except the one for cross builds, which repeats folders.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re

from tree import CODE

COMMAND = re.compile(r'(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)')
DECLARATIONS = {'outrider_library', 'outrider_program', 'outrider_test', 'outrider_fuzz', 'add_library'}
# The targets that a verb adds by itself.
IMPLIED = {'outrider_test': ['outrider_test_paths', 'gtest'], 'outrider_fuzz': ['outrider_base']}


class Target:
    """A library, program or test: its sources and, by name, the targets whose headers it may include."""

    def __init__(self, name, folder, verb):
        self.name, self.folder, self.verb = name, folder, verb
        self.sources, self.public, self.private = [], [], []

    def is_library(self):
        return self.verb in ('outrider_library', 'add_library')

    def listed(self, from_header):
        """Headers of a library reach its users, so they may include only what it lists as public."""
        return self.public if from_header and self.is_library() else self.public + self.private


def commands(text):
    """[(name, words)] of a CMake file; functions' bodies and the cross build's part left out."""
    text = re.sub(r'(?m)(?<!\S)#.*$', '', text)
    text = re.sub(r'\b(?:function|macro)\s*\(.*?\bend(?:function|macro)\s*\(\)', '', text, flags=re.S)
    text = re.sub(r'\bif\s*\(CMAKE_CROSSCOMPILING\).*?\bendif\s*\(\)', '', text, flags=re.S)
    return [(match.group(1), match.group(2).split()) for match in COMMAND.finditer(text)]


def sections(words):
    """{keyword: values} of a verb's arguments; what stands before the first keyword is under ''."""
    found, keyword = {'': []}, ''
    for word in words:
        if re.fullmatch(r'[A-Z][A-Z_]+', word):
            keyword = word
            found.setdefault(keyword, [])
        else:
            found[keyword].append(word)
    return found


class TargetList:
    """All targets in the order of their declaration."""

    def __init__(self, tree):
        self.tree, self.targets = tree, {}
        self._read('')
        self._order = {name: at for at, name in enumerate(self.targets)}
        self._sources, self._compiling = {}, {}  # the targets that compile a source, or one in a folder
        for target in self.targets.values():
            target.sources = [source for source in target.sources if source in tree.text]
            for source in target.sources:
                self._sources.setdefault(source, []).append(target)
            for folder in set(map(os.path.dirname, target.sources)):
                self._compiling.setdefault(folder, []).append(target)
        # Files that are compiled, or are the header of one that is.
        self.has_source = {path for path in tree.code() if self._by_name(path)}

    def __iter__(self):
        return iter(self.targets.values())

    def get(self, name):
        return self.targets.get(name)

    def position(self, target):
        return self._order[target.name]

    def of_source(self, path):
        return self._sources.get(path, [])

    def _by_name(self, path):
        stem = re.sub(r'-inl$', '', os.path.splitext(path)[0])
        return self.of_source(path) or self.of_source(stem + '.cc') or self.of_source(stem + '.cu')

    def of(self, path):
        """The targets that a file belongs to. A header belongs where the .cc file of its name does; one
        without such a file to all targets of its folder, or else of the next folder above."""
        found, folder = self._by_name(path), os.path.dirname(path)
        while not found:
            found = self._compiling.get(folder) or [target for target in self if target.folder == folder]
            if not folder:
                break
            folder = os.path.dirname(folder)
        return found

    def _read(self, folder):
        variables = {}
        for name, words in commands(self.tree.text.get(os.path.join(folder, 'CMakeLists.txt'), '')):
            words = [value for word in words
                     for value in (variables.get(word[2:-1], []) if re.fullmatch(r'\$\{\w+\}', word) else [word])]
            if name == 'set' and words:
                variables[words[0]] = words[1:]
            elif name == 'list' and words[:1] == ['APPEND']:
                variables.setdefault(words[1], []).extend(words[2:])
            elif name in ('outrider_add_folders', 'add_subdirectory'):
                for below in words:
                    self._read(os.path.join(folder, below))
            elif name in DECLARATIONS:
                self._declare(name, folder, words)
            elif name == 'target_link_libraries' and words[0] in self.targets:
                part = sections(words[1:])
                self.targets[words[0]].public += part.get('PUBLIC', []) + part.get('INTERFACE', [])
                self.targets[words[0]].private += part.get('PRIVATE', [])

    def _declare(self, verb, folder, words):
        part = sections(words)
        name = part[''][0] if part[''] else ''
        sources = part.get('SOURCES', [])
        if verb == 'outrider_fuzz':
            sources, name = sources + [name + '_fuzz.cc'], 'fuzz_' + name
        elif verb == 'add_library':
            sources = [word for word in words if word.endswith(CODE)]
        target = self.targets.setdefault(name, Target(name, folder, verb))
        target.sources += [os.path.normpath(os.path.join(folder, source)) for source in sources]
        target.public += part.get('DEPS', []) + IMPLIED.get(verb, [])
        target.private += part.get('PRIVATE_DEPS', [])
