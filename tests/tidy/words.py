"""Words: licence lines, paths of machines, and terms of our own where the field has one.

docs/glossary.md lists the terms that the project uses.
SPDX-License-Identifier: Apache-2.0
"""
import re

from tree import CODE, COMMENT_OR_LITERAL, line_of, without_comments_and_strings

BANNED = [
    (re.compile(r'\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))'), 'open end without an issue, TODO(#12)'),
    (re.compile(r'(?<![\w.$}])/(?:home|root|work|opt)/\w'), 'path of somebody\'s machine'),
    (re.compile(r'\b(?:DESIGN|PROTOCOL)(?!\.md)\b'), 'a page that is not here: name docs/design.md or docs/protocol.md'),
]
# In code, comments and documents: what is said instead of it.
WORDS = [
    (re.compile(r'\b(?:fly|flies|flew|flying)\b|(?:\b|_)(?:flies|flew|flying)(?:\b|_)', re.I), 'in_flight, was_in_flight'),
    (re.compile(r'\b(?:in[ _])?vain\b|_vain\b', re.I), 'obsolete'),
    (re.compile(r'\bAnswering\w+|\b(?:class|struct) Answering\b'), 'Generator'),
    (re.compile(r'\b\w*ReportLane\w*|\bopen_lane\b|\blane_?\(\)|\bOnReport\b'), 'ExitReportChannel'),
    (re.compile(r'\bweather\b', re.I), 'conditions, or the fault that is meant'),
    (re.compile(r'\b(?:\w+_)?outlet\w*\b', re.I), 'StreamSink'),
    (re.compile(r'\bcomplain\w*|\bconfess\w*'), 'report_peer_error, report_internal_error'),
    (re.compile(r'\b\w*(?:Contest|Rivals|Duel)(?![a-z])\w*'), 'what is compared'),
    (re.compile(r'\b\w*ExitWorth\w*|\bexit_worth\w*'), 'ExitCostBenefit'),
    (re.compile(r'\bk(?:Most|Least)\w+'), 'kMax.., kMin..'),
    (re.compile(r'\blikewise\b', re.I), 'the whole sentence'),
    (re.compile(r'\bwhoever\b', re.I), 'who it is'),
    (re.compile(r'\b(?:first|second) level of cache\b', re.I), 'L1, L2'),
    (re.compile(r'\bask_for(?:_next)?\b'), 'prefetch'),
    (re.compile(r'\bturned_(?!away)|\b(?:keys|rows|columns) are turned\b'), 'transposed'),
    (re.compile(r'\b(?:in|of|for|from) the books\b|\b(?:its|their|\w+\'s) books\b|\bbooks and bills\b', re.I), 'usage record'),
    (re.compile(r'\bis said that\b', re.I), 'the sentence itself'),
    (re.compile(r'\bLearntPair\b|\blearnt_pair\b'), 'PairProfile'),
    (re.compile(r'\bAdminQuestions\b|\badmin_questions\b'), 'AdminCallbacks'),
    (re.compile(r'\bbut for\b', re.I), 'except, except for'),
    (re.compile(r'\bworth a (?:word|line)\b', re.I), 'logged'),
    (re.compile(r'\bwants? no more of\b', re.I), 'cancelled'),
    (re.compile(r'\bnear end of (?:its|the|their) \w*\s?interval', re.I), 'the unfavourable end, the pessimistic bound'),
    (re.compile(r'\bnothing (?:is|was) shown\b|\bshows? nothing\b', re.I), 'inconclusive'),
    (re.compile(r'\bhand(?:s|ed)? ?backs?\b(?!-after)', re.I), 'failback'),
    (re.compile(r'\btold loads\b', re.I), 'see load levels, not timings'),
    (re.compile(r'\bstrangers?\b', re.I), 'an unauthenticated connection'),
    (re.compile(r'\bvouch\w*'), 'mark_authenticated'),
    (re.compile(r'\bteach(?:es)?\b|\btaught\b', re.I), 'save_to, what was learnt'),
    (re.compile(r'\b\w*(?:Foretell|foretell)\w*'), 'ProvisionalTextDecorator'),
    (re.compile(r'\bDemandedWalk\b'), 'LazyLogitsWalk'),
    (re.compile(r'\bWrongKeys\b|\bwrong_keys\b'), 'AuthFailureLimiter'),
    (re.compile(r'\b(?:Blurred|Forgetful|Remembering)Model\b|\b(?:blurred|forgetful|remembering)_model\b'),
     'NoisyModel, DriftingModel, MemoizedModel'),
    (re.compile(r'\bbrains?\b(?! are pure)', re.I), 'the session, the code that decides'),
    (re.compile(r'\bseams?\b', re.I), 'the interface'),
    (re.compile(r'\b(?:tells?|told) (?:of|how|that|which|what|when|where|whether)\b', re.I), 'reports, says'),
]
# In code only, comments and literals aside.
IDENTIFIERS = [
    (re.compile(r'\b\w*(?:Weather|World)(?![a-z])\w*|\bPlace\b'), 'the field\'s term'),
    (re.compile(r'\b(?:\w+_)?(?:weather|world|tell)(?:_\w+)?\b'), 'the field\'s term'),
]
# A comment that goes on from another one, or into it. Ranges (1 .. 4) and what is left out within quotes,
# brackets and lists stay.
CONTINUATION = re.compile(r'(?://|#)\s*\.\.\s|^\s*\*?\s*\.\.\s\w|[^\s.,("\[{+]\s\.\.$')

# "Of the last pass." names nothing, and "What a pass took." is no sentence: "The rows of the last pass."
FRAGMENT = re.compile(r'(?://|#)\s*(?:Of|What|Who|As) [A-Za-z]')


def is_exempt(path):
    """The rules themselves, and vocabularies, which hold words of others."""
    return path.startswith('tests/tidy/') or path.endswith(('tokenizer.json', '.jsonl'))


def check_licence(tree):
    for path, text in tree.text.items():
        if path.endswith(CODE + ('.proto', '.py', '.js', '.css', '.html')) and 'SPDX-License-Identifier: Apache-2.0' not in text:
            yield path, 1, 'no SPDX-License-Identifier line'


def check_banned(tree):
    for path, text in tree.text.items():
        for pattern, meaning in BANNED if path != 'tests/tidy/words.py' else ():
            for match in pattern.finditer(text):
                yield path, line_of(text, match.start()), f'{meaning}: {match.group()!r}'


def check_words(tree):
    for path, text in tree.text.items():
        if is_exempt(path):
            continue
        for pattern, instead in WORDS:
            for match in pattern.finditer(text):
                yield path, line_of(text, match.start()), f'says {match.group()!r}; say instead: {instead}'
        if path.endswith(CODE):
            code = without_comments_and_strings(text)
            for pattern, instead in IDENTIFIERS:
                for match in pattern.finditer(code):
                    yield path, line_of(code, match.start()), f'names {match.group()!r}; name it by {instead}'


def comments(path, text):
    """[(line, text)] of the comments of a file."""
    if path.endswith(CODE + ('.proto', '.js')):
        for match in COMMENT_OR_LITERAL.finditer(text):
            if match.group()[0] == '/':
                for at, line in enumerate(match.group().splitlines()):
                    yield line_of(text, match.start()) + at, line
    elif path.endswith(('.py', '.sh', '.cmake', 'CMakeLists.txt', '/run')) or path == 'run':
        for match in re.finditer(r'(?m)(?:^|(?<=\s))#(?![!{]).*$', text):
            yield line_of(text, match.start()), match.group()


def check_continuations(tree):
    for path, text in tree.text.items():
        for line, comment in comments(path, text) if not is_exempt(path) else ():
            if CONTINUATION.search(comment):
                yield path, line, f'a comment that is no whole sentence: {comment.strip()!r}'


def check_fragments(tree):
    for path, text in tree.text.items():
        lines, last = text.splitlines(), (-1, '')  # the comment line before, if it has no code
        for line, comment in comments(path, text):
            begins = last[0] != line - 1 or not last[1].strip('/# ')
            last = (line, comment) if lines[line - 1].strip() == comment.strip() else (-1, '')
            if begins and FRAGMENT.match(comment):
                yield path, line, f'a comment that begins neither with a sentence nor with a noun: {comment.strip()!r}'
        for match in re.finditer(r'"""(?:Of|What|Who|As) [A-Za-z][^\n]*', text) if path.endswith('.py') and not is_exempt(path) else ():
            yield path, line_of(text, match.start()), f'a docstring that begins neither with a sentence nor with a noun: {match.group()!r}'


CHECKS = (check_licence, check_banned, check_words, check_continuations, check_fragments)
