"""The questions of all clients, and the checks of their answers. It stands on pydantic, which all of them bring.

SPDX-License-Identifier: Apache-2.0
"""
import sys
from typing import Literal

from pydantic import BaseModel, Field

MODEL = 'robot'
QUESTION = 'Pick up the red cup.'
MESSAGES = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': QUESTION}]
TOKENS = 12
CALL_TOKENS = 200  # a call, or a plan
moves = []  # the places of all calls of move()


class Step(BaseModel):
    """A step of the robot."""
    action: Literal['move', 'turn', 'grasp']
    steps: int = Field(ge=1, le=9)
    careful: bool


class Plan(BaseModel):
    """A plan of the robot."""
    goal: Literal['cup', 'door']
    steps: list[Step] = Field(min_length=1, max_length=2)


def move(to: Literal['base', 'door', 'table']) -> str:
    """Moves the robot.

    Args:
        to: The place.
    """
    moves.append(to)
    return 'done'


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def check_text(whole, streamed):
    check(whole and streamed == whole, f'{streamed!r} streamed, {whole!r} whole')


def raised(kind, act):
    """The exception of this kind that the act raises."""
    try:
        act()
    except kind as error:
        return error
    raise AssertionError(f'no {kind.__name__}')


def at_each_address(run):
    """Lets a client run at each address of the command line."""
    for base in sys.argv[1:]:
        print(f'at {base}', file=sys.stderr)
        run(base)
