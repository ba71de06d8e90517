"""The questions of all clients, and the checks of their answers. It stands on pydantic, which all of them bring.

SPDX-License-Identifier: Apache-2.0
"""
import json
import sys
import time
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


TASK = 'Where is the red cup? Look, turn by the degrees that look says, then grasp it.'
INSTRUCTIONS = 'You control a robot by its tools. Write one tool call, then stop and wait for its result. Never guess: look says the degrees.'
CUP = 40    # degrees to the left
TURNS = 8   # most answers that a model may give in the task
ONE_CALL = {'tool_choice': 'required', 'parallel_tool_calls': False}
AT_ZERO = {'temperature': 0, 'max_tokens': 100}


class Scene:
    """A robot, and a red cup to its left. The tools below act on it."""

    def begin(self):
        self.calls, self.heading, self.held = [], 0, None

    def is_done(self):
        """The robot looked, turned, and grasped the cup."""
        return self.held is not None and {call[0] for call in self.calls} == {'look', 'turn', 'grasp'}


scene = Scene()


def look() -> str:
    """Says where the things in view are, in degrees. Turn by these degrees to face a thing."""
    scene.calls.append(('look',))
    return f'The red cup is at {CUP - scene.heading} degrees.'


def turn(degrees: int) -> str:
    """Turns the robot on the spot.

    Args:
        degrees (int): The angle; positive is to the left.
    """
    scene.calls.append(('turn', degrees))
    scene.heading += degrees
    return f'Turned by {degrees} degrees.'


def grasp(thing: str) -> str:
    """Closes the gripper around the thing in front of the robot.

    Args:
        thing (str): The name of the thing.
    """
    scene.calls.append(('grasp', thing))
    if scene.heading != CUP or 'cup' not in thing:
        return 'The gripper is empty: the robot does not face it.'
    scene.held = thing
    return f'The gripper holds the {thing}.'


TOOLS = {tool.__name__: tool for tool in (look, turn, grasp)}


def schema_of(tool):
    """The tool as OpenAI's routes take it, from its own description."""
    words, _, arguments = tool.__doc__.partition('Args:')
    properties = {name: {'type': {int: 'integer', str: 'string'}[kind], 'description': arguments.partition(f'{name} (')[2].partition(': ')[2].split('\n')[0]}
                  for name, kind in tool.__annotations__.items() if name != 'return'}
    return {'type': 'function', 'function': {'name': tool.__name__, 'description': words.strip(), 'parameters': {
        'type': 'object', 'properties': properties, 'required': list(properties), 'additionalProperties': False}}}


def act_by_chats(create):
    """The task by a client that leaves the loop to its user: create(..) is OpenAI's chat completion."""
    messages = [{'role': 'system', 'content': INSTRUCTIONS}, {'role': 'user', 'content': TASK}]
    tools = [schema_of(tool) for tool in TOOLS.values()]
    while not scene.is_done() and len(messages) < 2 + 2 * TURNS:
        said = create(messages=messages, tools=tools, **ONE_CALL, **AT_ZERO).choices[0].message
        call, = said.tool_calls
        result = TOOLS[call.function.name](**json.loads(call.function.arguments))
        messages += [{'role': 'assistant', 'tool_calls': [call.model_dump()]},
                     {'role': 'tool', 'tool_call_id': call.id, 'content': result}]


def at_each_address(run, act=None):
    """Lets a client run at each address of the command line. With --task it acts instead: a client with tools does the robot's task."""
    acts, bases = '--task' in sys.argv, [word for word in sys.argv[1:] if word != '--task']
    for base in bases:
        print(f'at {base}', file=sys.stderr)
        if not acts:
            run(base)
            continue
        scene.begin()
        began = time.monotonic()
        act(base)
        check(scene.is_done(), f'the task is not done: {scene.calls}')
        print(f'{len(scene.calls)} calls, {time.monotonic() - began:.0f} s')
