"""Checks that files include only what the lists in the CMakeLists.txt files allow.

A library or program includes only headers of targets that it lists itself. What its users see of a
library, the headers that other targets include, is bound to its DEPS; its other files may use its
PRIVATE_DEPS too. A test may also include what the targets on its list offer through their DEPS. Lists
name only targets that CMake has read before, so that arrows go down and close no circle, and libraries
and programs list nothing that they do not include.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re

from targets import TargetList
from tree import line_of, without_comments

APART = {'edge_client', 'cloud_server'}  # these never include each other
TORCH = re.compile(r'^(?:torch|ATen|c10|caffe2)/')
CLASHES = re.compile(r'^(?:google/protobuf|grpc|grpcpp|spdlog|fmt)/|\.pb\.h$')
NAMESPACE = re.compile(r'^namespace ([\w:]+) \{', re.M)
TYPE = re.compile(r'^(?:struct|class) (\w+)[^;{]*\{', re.M)  # of a namespace: those in types are indented
# Headers that are not files of the tree, and the target that provides them.
EXTERNAL = [
    (re.compile(r'^(?:torch|ATen|c10)/'), 'outrider::torch'),
    (re.compile(r'^(?:grpc|grpcpp)/'), 'gRPC::grpc++'),
    (re.compile(r'^proto/.*\.grpc\.pb\.h$'), 'outrider_wire_service'),
    (re.compile(r'^proto/otlp/.*\.pb\.h$'), 'outrider_otlp_messages'),
    (re.compile(r'^(?:google/protobuf/|proto/(?!otlp/).*(?<!\.grpc)\.pb\.h$)'), 'outrider_wire_messages'),
    (re.compile(r'^spdlog/'), 'outrider_spdlog'),
    (re.compile(r'^fmt/'), 'outrider_fmt'),
    (re.compile(r'^CLI/'), 'outrider_cli11'),
    (re.compile(r'^hwy/'), 'outrider_highway'),
    (re.compile(r'^nlohmann/'), 'outrider_json'),
    (re.compile(r'^unicode/'), 'outrider_icu'),
    (re.compile(r'^pcre2\.h$'), 'outrider_pcre2'),
]


def top(path):
    return path.split('/')[0]


def reachable(targets, names):
    """The named targets and all that they list as public, at any distance."""
    seen, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            target = targets.get(name)
            todo += target.public if target else []
    return seen


def offered(targets, target, from_header, strict):
    """The names of the targets whose headers a file of `target` may include."""
    listed = target.listed(from_header)
    return {target.name} | (set(listed) if strict else reachable(targets, listed))


def is_test(target):
    return top(target.folder) == 'tests'


def public_headers(tree, targets):
    """The headers that other targets but tests include, and what these include of their own target."""
    found, todo = set(), []
    for path in [path for path in tree.code() if top(path) != 'tests']:
        mine = {target.name for target in targets.of(path)}
        todo += [name for name, _ in tree.includes(path)
                 if name in tree.text and mine.isdisjoint(target.name for target in targets.of(name))]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [name for name, _ in tree.includes(path)
                     if name in tree.text and targets.of(name) == targets.of(path)]
    return found


def refusal(targets, includer, owner, included, is_public):
    """Why `includer`, a file of `owner`, may not include the file `included`; None if it may."""
    if {top(includer), top(included)} == APART:
        return f'may not include {included}'
    theirs = targets.of(included)
    if is_test(owner) and top(included) == 'tests' and included not in targets.has_source:
        return None  # a test's helper without a .cc file
    allowed = offered(targets, owner, is_public, strict=not is_test(owner))
    if not theirs or any(target.name in allowed for target in theirs):
        return None
    lists = 'DEPS' if is_public else 'DEPS or PRIVATE_DEPS'
    return f'may not include {included}: {lists} of {owner.name} lack {theirs[0].name}'


def external_refusal(targets, _, owner, included, is_public):
    for pattern, provider in EXTERNAL:
        if pattern.search(included) and provider not in offered(targets, owner, is_public, strict=False):
            return f'may not include {included}: {owner.name} does not list {provider}'
    return None


def check_includes(tree):
    targets = TargetList(tree)
    public = public_headers(tree, targets)
    for path in tree.code():
        owners = targets.of(path)
        for included, line in tree.includes(path):
            reason = refusal if included in tree.text else external_refusal
            found = [reason(targets, path, owner, included, path in public) for owner in owners]
            # A header without a .cc file belongs to every target of its folder: one of them must allow it.
            if any(found) and (path in targets.has_source or all(found)):
                yield path, line, next(filter(None, found))


def check_arrows(tree):
    """Lists name only what CMake has read before."""
    targets = TargetList(tree)
    for target in targets:
        for name in target.public + target.private:
            other = targets.get(name)
            if other and other is not target and targets.position(other) > targets.position(target):
                yield cmake_of(target), 1, f'{target.name} lists {name}, which CMake reads later'


def check_circles(tree):
    """No file includes itself by way of others."""
    below = {path: [name for name, _ in tree.includes(path) if name in tree.text] for path in tree.code()}
    done = set()

    def walk(path, above):
        if path in above:
            yield path, 1, 'includes itself by way of ' + ', '.join(above[above.index(path) + 1:])
        elif path not in done:
            for name in below[path]:
                yield from walk(name, above + [path])
            done.add(path)

    for path in below:
        yield from walk(path, [])


def cmake_of(target):
    return os.path.join(target.folder, 'CMakeLists.txt')


def check_lists(tree):
    """Libraries and programs list nothing that they do not include."""
    targets = TargetList(tree)
    used = {}
    for path in tree.code():
        owners = targets.of(path)
        for included, _ in tree.includes(path):
            names = {target.name for target in targets.of(included)} if included in tree.text else \
                    {provider for pattern, provider in EXTERNAL if pattern.search(included)}
            for owner in owners:
                used.setdefault(owner.name, set()).update(names)
    for target in targets:
        for name in target.public + target.private:
            if is_test(target) or target.verb == 'add_library' or not targets.get(name):
                continue
            if name not in used.get(target.name, ()):
                yield cmake_of(target), 1, f'{target.name} lists {name} and includes nothing of it'


def check_built(tree):
    """Every source stands in the list of a target."""
    targets = TargetList(tree)
    for path in tree.paths:
        if path.endswith(('.cc', '.cu')) and not targets.of_source(path):
            yield path, 1, 'no CMakeLists.txt names this file'


def check_clashes(tree):
    """No source sees torch's headers together with protobuf's, gRPC's or spdlog's, by any way."""
    def reach(path, seen):
        for name, _ in tree.includes(path):
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


def check_type_names(tree):
    """No two headers define a type of the same name in one namespace: in a program that links both, the
    linker would keep one of them for all users."""
    first = {}
    for path in tree.code():
        text = without_comments(tree.text[path])
        space = NAMESPACE.search(text)
        if not path.endswith('.h') or not space or 'HWY_NAMESPACE' in space.group(1):
            continue
        for match in TYPE.finditer(text):
            name = f'{space.group(1)}::{match.group(1)}'
            other = first.setdefault(name, path)
            if other != path:
                yield path, line_of(text, match.start()), f'{other} defines {name} too'


CHECKS = (check_includes, check_arrows, check_circles, check_lists, check_built, check_clashes,
          check_type_names)
