"""The node's parameters, and what follows from them. Pure: no ROS, no I/O.

SPDX-License-Identifier: Apache-2.0
"""
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence

# Name, default, description. Names are llama_ros' where it has the parameter.
PARAMETERS = (
    ('url', '', 'An edge that runs already, as http://127.0.0.1:8080; empty: the node starts one of its own'),
    ('server', '', 'HOST:PORT of outrider-server; empty: the target of target_path answers alone'),
    ('model_path', '', 'The draft model: a directory or a GGUF file; empty: look-up drafts'),
    ('target_path', '', 'The target on this robot, for when the server is gone: a directory, GGUF file or pack'),
    ('tls_ca', '', 'The authority of the server\'s certificate, a PEM file'),
    ('token_file', '', 'This robot\'s key for the server'),
    ('n_ctx', 0, 'Most tokens of prompt and answer; 0: the target\'s'),
    ('n_threads', 0, 'Compute threads; 0: all that are granted'),
    ('n_predict', 256, 'Most tokens of an answer'),
    ('temp', 0.0, '0: always the likeliest token'),
    ('seed', 1, 'The same seed gives the same text'),
    ('deadline_ms', 800, 'By which Act has an action, verified or not'),
    ('act_prompt', 'In view: {scene} Task: {task}', 'What Act asks: {scene} and {task} are filled in'),
    ('act_pattern', '[^\n]*\nAction: {action}', 'A regular expression of Act\'s whole answer; {action} stands for the declared actions'),
    ('extra_args', [''], 'Other flags of outrider-edge serve; empty ones are left out'),
    ('start_timeout', 900.0, 'Seconds in which the edge must have loaded its models and reached its server'),
    ('diagnostics_period', 1.0, 'Seconds between two messages on /diagnostics'),
)


def edge_flags(parameters: Dict[str, Any]) -> List[str]:
    """The flags of outrider-edge serve. Raises ValueError where nothing could answer."""
    if not parameters['server'] and not parameters['target_path']:
        raise ValueError('neither server nor target_path is set. Remedy: set the parameter server to HOST:PORT of outrider-server, or '
                         'target_path to a model on this robot, or url to an edge that runs')
    flags: List[str] = []
    for name, flag in (('server', '--server'), ('model_path', '--model'), ('target_path', '--target'), ('tls_ca', '--tls-ca'),
                       ('token_file', '--token-file'), ('n_ctx', '--ctx-size'), ('n_threads', '--threads')):
        if parameters[name]:
            flags += [flag, str(parameters[name])]
    return flags + [flag for flag in parameters['extra_args'] if flag]


def messages_of(roles: Sequence[str], contents: Sequence[str]) -> List[Dict[str, str]]:
    """Raises ValueError where they are no conversation."""
    if len(roles) != len(contents) or not roles:
        raise ValueError(f'roles has {len(roles)} entries and contents {len(contents)}: there must be equally many, at least one')
    for role in roles:
        if role not in ('system', 'user', 'assistant'):
            raise ValueError(f'roles: {role!r} is none of system, user, assistant')
    return [{'role': role, 'content': content} for role, content in zip(roles, contents)]


def check(parameters: Dict[str, Any]) -> None:
    """Raises ValueError for parameters with which no goal could succeed."""
    for name in ('diagnostics_period', 'start_timeout', 'deadline_ms', 'n_predict'):
        if not parameters[name] > 0:
            raise ValueError(f'{name} is {parameters[name]}. Remedy: a value above 0')
    for part in ('{scene}', '{task}'):
        if part not in parameters['act_prompt']:
            raise ValueError(f'act_prompt lacks {part}')
    if parameters['act_pattern'].count('{action}') != 1:
        raise ValueError('act_pattern must have {action} once')
    try:
        re.compile(parameters['act_pattern'].replace('{action}', '(?P<action>x)'))
    except re.error as error:
        raise ValueError(f'act_pattern is no regular expression: {error}') from error


@dataclass(frozen=True)
class Task:
    """The question of an Act goal to the model, and how its action is read from the answer."""
    prompt: str
    constraint: str  # a regular expression of the whole answer, as edges take it
    pattern: str     # the same with a group `action`

    def action_in(self, text: str) -> Optional[str]:
        """The declared action that the text says; None: it says none, or one that is not declared."""
        found = re.fullmatch(self.pattern, text.strip())
        return found['action'] if found else None


def is_text(text: str) -> bool:
    """Bytes that are no UTF-8 arrive as U+FFFD."""
    return bool(text.strip()) and not any(ord(c) < 32 and c not in '\n\t' or c in '\x7f\ufffd' for c in text)


def task_of(scene: str, task: str, actions: Sequence[str], parameters: Dict[str, Any]) -> Task:
    """Raises ValueError where the goal makes no sense."""
    for name, text in (('scene', scene), ('task', task)):
        if not is_text(text):
            raise ValueError(f'{name} is no text')
    if not actions:
        raise ValueError('actions has no entry')
    for action in actions:
        if not is_text(action) or action != action.strip() or '\n' in action or '\t' in action:
            raise ValueError(f'actions: {action!r} is no text of one line, without spaces around it')
    if len(set(actions)) != len(actions):
        raise ValueError('actions has an entry twice')
    # Grammars of edges know fewer escapes than Python, and no line break as it is.
    choice = '|'.join(re.sub(r'[\\^$.|?*+()\[\]{}/]', r'\\\g<0>', action) for action in actions)
    before, after = parameters['act_pattern'].replace('\n', r'\n').split('{action}')
    prompt = parameters['act_prompt'].replace('{scene}', scene).replace('{task}', task)
    return Task(prompt, f'{before}(?:{choice}){after}', f'{before}(?P<action>{choice}){after}')


@dataclass(frozen=True)
class Figures:
    """Figures of the edge's page /metrics."""
    mode: str = 'unknown'  # online, degraded or offline
    tokens: float = 0
    drafted: float = 0
    failovers: float = 0
    joules: Optional[float] = None
    kv_usage: Dict[str, float] = field(default_factory=dict)  # 0 to 1, by cache: draft, target


def figures_of(page: str) -> Figures:
    values: Dict[str, float] = {}
    kv_usage: Dict[str, float] = {}
    mode = 'unknown'
    for line in page.splitlines():
        if line.startswith('#') or ' ' not in line:
            continue
        name, value = line.rsplit(' ', 1)
        values.setdefault(name.split('{')[0], 0.0)
        values[name.split('{')[0]] += float(value)
        found = re.search(r'outrider_edge_mode\{.*mode="(\w+)"', name)
        if found and float(value) == 1:
            mode = found[1]
        found = re.search(r'outrider_edge_kv_cache_usage_perc\{.*cache="(\w+)"', name)
        if found:
            kv_usage[found[1]] = float(value)
    return Figures(mode, values.get('outrider_edge_generation_tokens_total', 0), values.get('outrider_edge_spec_decode_num_accepted_tokens_total', 0),
                   values.get('outrider_edge_failovers_total', 0), values.get('outrider_edge_joules_total'), kv_usage)
