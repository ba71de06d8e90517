#!/usr/bin/env python3
"""The check of agents (tests/soak/agent.py): its scene acts as its tools say, and both programs do the same task by the
same calls.

  OUTRIDER_BIN=build/release/bin tests/e2e/agent_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import BIN, ROOT
from runner import run_tests
from tools_test import TEMPLATE

sys.path.insert(0, str(ROOT / 'tests/soak'))
from robot_scene import Scene, tasks  # noqa: E402


class TheScene(unittest.TestCase):
    def test_a_thing_is_grasped_where_look_says_it_is(self):
        for _, words, scene, success in tasks(16, seed=3):
            with self.subTest(words):
                self.assertFalse(success(scene))
                thing = next(iter(scene.things))
                seen = json.loads(scene.look())[thing]
                if words.startswith('Turn'):
                    degrees, metres = int(words.split()[3]), int(words.split()[7])
                    seen = {'turn_degrees': degrees if 'left' in words else -degrees, 'move_metres': metres}
                said = f'{seen["move_metres"]} m'
                scene.call('turn', {'degrees': seen['turn_degrees']})
                if not words.startswith('How'):
                    scene.call('move', {'metres': seen['move_metres']})
                scene.call('grasp', {'thing': thing})
                scene.call('say', {'text': said})
                self.assertTrue(success(scene), vars(scene))

    def test_what_is_out_of_reach_or_unknown_is_not_held(self):
        scene = Scene({'cup': (0, 2)})
        self.assertIn('2.0 metres away', scene.grasp('cup'))
        self.assertIn('no mug', scene.grasp('mug'))
        self.assertIsNone(scene.held)
        scene.turn(180)
        self.assertEqual(scene.look(), '{}', 'it is behind the robot')


class BothPrograms(unittest.TestCase):
    def test_they_make_the_same_valid_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            template = Path(folder) / 'tools.jinja'
            template.write_text(TEMPLATE, encoding='utf-8')
            done = subprocess.run([sys.executable, ROOT / 'tests/soak/agent.py', '--ways', 'server,plain,drafts,device', '--tasks', '2', '--chat-template', template,
                                   '--max-tokens', '60', '--link', 'delay=2ms'],
                                  capture_output=True, text=True, check=False, env={'OUTRIDER_BIN': str(BIN), 'PATH': '/usr/bin:/bin'})
        self.assertIn(done.returncode, (0, 1, 4), done.stderr)
        line = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(line.get('failures', []), [], done.stderr)
        self.assertEqual([kinds['robot']['of'] for kinds in line['success'].values()], [2] * 4)
        for way in line['ways'].values():
            self.assertGreater(way['calls'], 0, line)
            self.assertEqual(way['valid'], way['calls'], line)


if __name__ == '__main__':
    run_tests()
