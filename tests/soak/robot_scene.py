"""A simulated scene for agents: a robot on a floor with things on it, the tools by which a model moves it, and tasks whose
success the scene itself shows.

SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import random

REACH = 0.5  # metres
VIEW = 100   # degrees to each side
THINGS = ('red cup', 'blue box', 'silver bottle', 'green ball', 'wooden chair', 'charger', 'yellow bag', 'black lamp')
INSTRUCTIONS = ('You control a robot by its tools, one call at a time. Use look first: it tells by how many degrees to turn and how many '
                'metres to move to be at each thing. Positive degrees are to the left. A thing can be grasped at a distance of at most '
                f'{REACH} metres. When the task is done, or the user asked for an answer, end with say.')


def tool(name, description, **properties):
    return {'type': 'function', 'function': {'name': name, 'description': description, 'strict': True, 'parameters': {
        'type': 'object', 'properties': properties, 'required': list(properties), 'additionalProperties': False}}}


TOOLS = (tool('look', 'Says where the things in view are.'),
         tool('turn', 'Turns the robot on the spot.', degrees={'type': 'integer', 'minimum': -180, 'maximum': 180}),
         tool('move', 'Moves the robot forward.', metres={'type': 'number'}),
         tool('grasp', 'Closes the gripper around a thing.', thing={'type': 'string'}),
         tool('say', 'Says a text to the user. This ends the task.', text={'type': 'string'}))


class Scene:
    """The robot and the things, on which the tools act. A call returns the words that the model reads."""

    def __init__(self, things):
        self.things = things  # by name: (x, y) in metres
        self.at, self.heading = (0.0, 0.0), 0  # degrees; 0: along y, positive: to the left
        self.held, self.said = None, None

    def distance(self, thing):
        return math.dist(self.at, self.things[thing])

    def bearing(self, thing):
        x, y = (there - here for there, here in zip(self.things[thing], self.at))
        return (math.degrees(math.atan2(-x, y)) - self.heading + 180) % 360 - 180

    def look(self):
        seen = {thing: {'turn_degrees': round(self.bearing(thing)), 'move_metres': round(self.distance(thing), 1)}
                for thing in self.things if thing != self.held and (abs(self.bearing(thing)) <= VIEW or self.distance(thing) <= REACH)}
        return json.dumps(seen)

    def turn(self, degrees):
        self.heading = (self.heading + degrees + 180) % 360 - 180
        return f'turned by {degrees} degrees'

    def move(self, metres):
        angle = math.radians(self.heading)
        self.at = self.at[0] - metres * math.sin(angle), self.at[1] + metres * math.cos(angle)
        return f'moved by {metres} metres'

    def grasp(self, thing):
        if thing not in self.things:
            return f'there is no {thing}'
        if self.distance(thing) > REACH:
            return f'the {thing} is out of reach: {self.distance(thing):.1f} metres away'
        self.held = thing
        return f'the gripper holds the {thing}'

    def say(self, text):
        self.said = text
        return 'said'

    def call(self, name, arguments):
        return getattr(self, name)(**arguments)


def tasks(count, seed):
    """[(id, the user's words, a scene, success(scene) at the end)], the kinds in turn."""
    drawn = []
    for number in range(count):
        chance = random.Random(f'{seed} {number}')
        names = chance.sample(THINGS, 3)
        scene = Scene({name: polar(chance.choice((-90, -60, -45, -30, 30, 45, 60, 90)), chance.choice((1.5, 2, 2.5, 3))) for name in names})
        words, success = KINDS[number % len(KINDS)](names[0], chance)
        drawn.append((f'robot {number}', words, scene, success))
    return drawn


def polar(degrees, metres):
    angle = math.radians(degrees)
    return -metres * math.sin(angle), metres * math.cos(angle)


def fetch(thing, _):
    return (f'Go to the {thing} and grasp it. Then say that you have it.', lambda scene: scene.held == thing and scene.said is not None)


def approach(thing, _):
    return f'Go to the {thing}. Then say that you are there.', lambda scene: scene.distance(thing) <= REACH and scene.said is not None


def report(thing, _):
    def success(scene):
        return f'{scene.distance(thing):.1f}'.removesuffix('.0') in (scene.said or '')
    return f'How many metres away is the {thing}? Look, then say it.', success


def drive(_, chance):
    degrees, metres = chance.choice((-90, -45, 45, 90)), chance.choice((1, 2, 3))
    there, side = polar(degrees, metres), 'left' if degrees > 0 else 'right'
    return (f'Turn {side} by {abs(degrees)} degrees and move {metres} metres. Then say that you are done.',
            lambda scene: math.dist(scene.at, there) <= 0.1 and scene.said is not None)


KINDS = (fetch, approach, report, drive)
