#!/usr/bin/env python3
"""The ROS 2 node as a process of its own, asked by a real rclpy client, with real edges and servers. One run for each
distribution that ./run setup has installed:

  OUTRIDER_BIN=build/release/bin .venv-ros-kilted/bin/python tests/ros/node_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import os
import random
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/e2e'))
# Other tests of this machine hear other nodes; those of the other distribution run beside these.
os.environ.setdefault('ROS_DOMAIN_ID', str(2 * random.randrange(1, 50) + ('kilted' in sys.prefix)))
os.environ['ROS_LOCALHOST_ONLY'] = '1'

if importlib.util.find_spec('rclpy') is None:
    print('skipped: there is no rclpy (./run setup installs it on x86-64 with Python 3.11)')
    sys.exit(77)

import rclpy  # noqa: E402  pylint: disable=wrong-import-position
from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402  pylint: disable=wrong-import-position
from lifecycle_msgs.msg import Transition  # noqa: E402  pylint: disable=wrong-import-position
from lifecycle_msgs.srv import ChangeState  # noqa: E402  pylint: disable=wrong-import-position
from outrider_interfaces.action import Act, Chat  # noqa: E402  pylint: disable=wrong-import-position
from outrider_interfaces.srv import GetLink, ListModels  # noqa: E402  pylint: disable=wrong-import-position
from rclpy.action import ActionClient  # noqa: E402  pylint: disable=wrong-import-position
from rclpy.executors import MultiThreadedExecutor  # noqa: E402  pylint: disable=wrong-import-position
from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, FORGETFUL, TARGET, Server, edge, ending_with_us, eventually  # noqa: E402  pylint: disable=wrong-import-position
from runner import run_tests  # noqa: E402  pylint: disable=wrong-import-position

SCENE, TASK = 'silver bottle 20 degrees left at 2.1 m.', 'find the silver bottle.'
PROMPT = f'In view: {SCENE} Task: {TASK}'
ACTIONS = ['stop'] + [f'{verb} ({size})' for verb in ('turn left', 'turn right', 'move forward') for size in ('small', 'medium', 'large')]
PATIENCE = 60


def wait(future):
    """A future's result; the executor's threads bring it."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(PATIENCE):
        raise AssertionError('nothing came')
    return future.result()


def children(pid):
    """The processes that this one has started."""
    return [int(word) for path in Path(f'/proc/{pid}/task').glob('*/children') for word in path.read_text().split()]


def is_running(pid):
    return Path(f'/proc/{pid}').exists()


class NodeProcess:
    """The node, with these parameters."""

    def __init__(self, **parameters):
        words = [word for name, value in parameters.items() if value != '' for word in ('-p', f'{name}:={value}')]
        self.lines = []
        self.process = subprocess.Popen(
            ending_with_us(sys.executable, '-m', 'outrider_ros.node', '--ros-args', *words), text=True, errors='replace',
            env={**CLEAN_ENVIRONMENT, 'PATH': f'{BIN.resolve()}:{os.environ["PATH"]}', 'ROS_DOMAIN_ID': os.environ['ROS_DOMAIN_ID']},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def said(self):
        return ''.join(self.lines)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(PATIENCE)
        self.process.stdout.close()


class Robot(unittest.TestCase):
    """A client node; each test starts the node that it asks."""

    @classmethod
    def setUpClass(cls):
        rclpy.init()
        cls.addClassCleanup(rclpy.try_shutdown)
        cls.node = rclpy.create_node('robot')
        cls.diagnostics = []
        cls.node.create_subscription(DiagnosticArray, '/diagnostics', lambda message: cls.diagnostics.extend(message.status), 10)
        cls.change = cls.node.create_client(ChangeState, '/outrider/change_state')
        cls.chat_client = ActionClient(cls.node, Chat, '/outrider/chat')
        cls.act_client = ActionClient(cls.node, Act, '/outrider/act')
        cls.executor = MultiThreadedExecutor(num_threads=4)
        cls.executor.add_node(cls.node)
        spinner = threading.Thread(target=cls.executor.spin, daemon=True)
        spinner.start()
        cls.addClassCleanup(spinner.join, PATIENCE)
        cls.addClassCleanup(cls.executor.shutdown)

    def start(self, **parameters):
        node = NodeProcess(**parameters)
        self.addCleanup(eventually, lambda: not self.change.service_is_ready(), 'the node is still there')
        self.addCleanup(node.stop)
        eventually(self.change.service_is_ready, node.said)
        self.diagnostics.clear()  # the node before this one may have said more after its test
        return node

    def transition(self, which):
        return wait(self.change.call_async(ChangeState.Request(transition=Transition(id=which)))).success

    def start_active(self, **parameters):
        node = self.start(**{'target_path': TARGET, 'model_path': DRAFT, 'diagnostics_period': 0.1, **parameters})
        self.assertTrue(self.transition(Transition.TRANSITION_CONFIGURE), node.said())
        self.assertTrue(self.transition(Transition.TRANSITION_ACTIVATE))
        eventually(lambda: self.chat_client.server_is_ready() and self.act_client.server_is_ready())
        return node

    def send(self, client, goal, feedback=None):
        return wait(client.send_goal_async(goal, feedback_callback=(lambda message: feedback.append(message.feedback)) if feedback is not None else None))

    def chat(self, prompt=PROMPT, **fields):
        return wait(self.send(self.chat_client, Chat.Goal(roles=['user'], contents=[prompt], **fields)).get_result_async()).result

    def act(self, feedback=None, **fields):
        goal = self.send(self.act_client, Act.Goal(**{'scene': SCENE, 'task': TASK, 'actions': ACTIONS, **fields}), feedback)
        if feedback is not None:  # before the result, with which rclpy forgets who listens
            eventually(lambda: feedback and feedback[-1].verified)
        return wait(goal.get_result_async()).result

    def plain(self, *flags):
        """The target's own text."""
        done = edge('run', '--target', TARGET, '--tokenizer', DRAFT, '--strategy', 'ar', '--chat', '-p', PROMPT, '--json', *flags)
        self.assertEqual(done.code, 0, done.err)
        return done.json['text']


class Actions(Robot):
    def test_a_chat_brings_its_text_as_it_comes(self):
        self.start_active(extra_args=['--draft-source', 'model'])  # else the draft rests where it seems slow at the start
        feedback, end = [], 'Action: turn left (small)'
        goal = self.send(self.chat_client, Chat.Goal(roles=['user'], contents=[PROMPT], max_tokens=60), feedback)
        # Before the result, with which rclpy forgets who listens.
        eventually(lambda: feedback and feedback[-1].text.endswith(end), lambda: feedback)
        result = wait(goal.get_result_async()).result
        self.assertTrue(result.text.endswith(end), result)
        self.assertEqual(result.finish_reason, 'stop')
        self.assertGreater(result.drafted_tokens, 0)
        texts = [message.text for message in feedback]
        self.assertEqual(texts[-1], result.text)
        self.assertEqual(texts, sorted(texts, key=len))
        self.assertTrue(all(0 <= message.drafted_share <= 1 for message in feedback))
        again = [self.chat(max_tokens=60, temperature=0.8, seed=seed).text for seed in (5, 5)]
        self.assertEqual(again[0], again[1], 'the same seed')

    def test_one_of_the_declared_actions_is_chosen(self):
        self.start_active()
        feedback = []
        result = self.act(feedback)
        self.assertEqual(result.action, 'turn left (small)', result)
        self.assertIn(result.outcome, ('in_time', 'confirmed', 'corrected'))
        self.assertEqual(feedback[-1].action, result.action)

    def test_another_action_is_impossible(self):
        node = self.start_active()
        for action in ('dance', 'halt (now) [a|b] {1} "é" \\ 50 %/s.'):
            result = self.act(actions=[action])
            self.assertEqual((result.action, result.text.rpartition('Action: ')[2]), (action, action), result)
        refused = self.act(actions=[f'action {number}' for number in range(1000)])
        self.assertIn('4096', refused.message, 'more than a form may have')
        self.assertEqual(self.act(actions=['dance']).action, 'dance', node.said())

    def test_what_is_not_there_by_the_deadline_is_late(self):
        server = Server(*FORGETFUL, '--pace-pass-ms', '20')
        self.addCleanup(server.stop)
        self.start_active(server=server.address, target_path='')
        feedback = []
        result = self.act(feedback, deadline_ms=10)
        self.assertEqual((result.outcome, result.action), ('late', 'turn left (small)'), result)
        self.assertEqual([message.verified for message in feedback], [True])

    def test_goals_beyond_a_bound_are_refused_and_those_within_are_cancelled_at_once(self):
        server = Server(*FORGETFUL, '--pace-pass-ms', '1000')
        self.addCleanup(server.stop)
        node = self.start_active(server=server.address, target_path='')
        goals = [self.send(self.chat_client, Chat.Goal(roles=['user'], contents=[PROMPT], max_tokens=60)) for _ in range(20)]
        taken = [goal for goal in goals if goal.accepted]
        self.assertEqual(len(taken), 16, node.said())
        eventually(lambda: '16 goals wait already' in node.said(), node.said)
        for goal in reversed(taken):
            self.assertTrue(wait(goal.cancel_goal_async()).goals_canceling)
            self.assertEqual(wait(goal.get_result_async()).result.finish_reason, 'cancelled')
        self.assertEqual(self.chat(max_tokens=1).finish_reason, 'length')

    def test_two_clients_get_their_own_answers(self):
        self.start_active()
        goals = [self.send(self.chat_client, Chat.Goal(roles=['user'], contents=[PROMPT], max_tokens=tokens)) for tokens in (5, 60)]
        short, whole = [wait(goal.get_result_async()).result for goal in goals]
        self.assertEqual((short.finish_reason, short.completion_tokens), ('length', 5))
        self.assertTrue(whole.text.startswith(short.text))

    def test_a_goal_is_cancelled_while_it_runs_and_before_it_began(self):
        server = Server(*FORGETFUL, '--pace-pass-ms', '300')
        self.addCleanup(server.stop)
        self.start_active(server=server.address, target_path='')
        feedback = []
        first = self.send(self.chat_client, Chat.Goal(roles=['user'], contents=[PROMPT], max_tokens=60), feedback)
        second = self.send(self.chat_client, Chat.Goal(roles=['user'], contents=[PROMPT], max_tokens=60))
        eventually(lambda: feedback, 'no text')
        for goal in (second, first):
            self.assertTrue(wait(goal.cancel_goal_async()).goals_canceling)
            result = wait(goal.get_result_async()).result
            self.assertEqual(result.finish_reason, 'cancelled')
        link = self.node.create_client(GetLink, '/outrider/get_link')
        eventually(link.service_is_ready)
        eventually(lambda: not wait(link.call_async(GetLink.Request())).answering, 'the edge goes on with a cancelled answer')
        self.assertEqual(self.chat(max_tokens=3).finish_reason, 'length')

    def test_the_server_is_killed_in_the_middle_of_an_answer(self):
        server = Server(*FORGETFUL, '--pace-pass-ms', '200')
        self.addCleanup(server.stop)
        self.start_active(server=server.address)
        eventually(lambda: self.said('mode', 'online'))
        feedback = []
        goal = self.send(self.chat_client, Chat.Goal(roles=['user'], contents=[PROMPT], max_tokens=60, temperature=0.7, seed=5), feedback)
        eventually(lambda: feedback, 'no text')
        server.process.kill()
        result = wait(goal.get_result_async()).result
        self.assertEqual(result.finish_reason, 'stop', result)
        eventually(lambda: self.said('mode', 'offline'))
        eventually(lambda: self.said('failovers', '1'))
        undisturbed = self.chat(max_tokens=60, temperature=0.7, seed=5)
        self.assertEqual(result.text, undisturbed.text)

    def said(self, key, value):
        return any(pair.key == key and pair.value == value for status in self.diagnostics[-3:] for pair in status.values)

    def test_kv_caches_on_this_robot_tell_their_use(self):
        self.start_active(extra_args=['--draft-source', 'model'])
        eventually(lambda: self.kv_usages() == {'draft': 0, 'target': 0}, lambda: f'nothing is computed: {self.diagnostics[-1:]}')
        self.chat(max_tokens=60)
        eventually(lambda: len(self.kv_usages()) == 2 and all(0 < usage <= 1 for usage in self.kv_usages().values()),
                   lambda: f'the text is kept: {self.diagnostics[-1:]}')

    def test_a_robot_without_models_has_no_kv_cache(self):
        server = Server(*FORGETFUL)
        self.addCleanup(server.stop)
        self.start_active(server=server.address, target_path='', model_path='', extra_args=['--tokenizer', str(TARGET)])
        self.chat(max_tokens=3)
        eventually(lambda: self.said('mode', 'online'))
        self.assertEqual(self.kv_usages(), {})

    def kv_usages(self):
        """By cache, as the latest message names them."""
        name = 'kv cache of the '
        return {pair.key.removeprefix(name): float(pair.value)
                for status in self.diagnostics[-1:] for pair in status.values if pair.key.startswith(name)}

    def test_models_and_links(self):
        self.start_active()
        models, link = self.node.create_client(ListModels, '/outrider/list_models'), self.node.create_client(GetLink, '/outrider/get_link')
        eventually(lambda: models.service_is_ready() and link.service_is_ready())
        self.assertEqual(wait(models.call_async(ListModels.Request())).names, ['demo-target'])
        self.assertEqual(wait(link.call_async(GetLink.Request())).decides, 'device')


class BadInput(Robot):
    def test_goals_that_make_no_sense_name_what_is_wrong(self):
        self.start_active()
        for fields, word in (({'scene': ''}, 'scene'), ({'scene': 'a\x01b'}, 'scene'), ({'task': ' '}, 'task'), ({'actions': []}, 'actions'),
                             ({'actions': ['stop', 'stop']}, 'actions')):
            result = self.act(**fields)
            self.assertEqual(result.outcome, 'error')
            self.assertIn(word, result.message)
        for actions in (['turn\nleft'], ['stop', ' go'], ['a\ufffd']):
            self.assertIn('actions', self.act(actions=actions).message)
        self.assertIn('slo.time_ms', self.act(deadline_ms=-5).message)
        self.assertIn('context', self.act(scene='x' * 100000).message)
        goal = Chat.Goal(roles=['user', 'tool'], contents=['a', 'b'])
        result = wait(self.send(self.chat_client, goal).get_result_async()).result
        self.assertIn('tool', result.message)
        self.assertIn('level', self.chat(level='60').message)

    def test_an_inactive_node_takes_no_goal(self):
        self.start_active()
        self.assertTrue(self.transition(Transition.TRANSITION_DEACTIVATE))
        self.assertFalse(self.send(self.chat_client, Chat.Goal(roles=['user'], contents=['x'])).accepted)
        self.assertTrue(self.transition(Transition.TRANSITION_ACTIVATE))
        self.assertEqual(self.chat(max_tokens=1).finish_reason, 'length')
        self.assertTrue(self.transition(Transition.TRANSITION_DEACTIVATE))
        self.assertTrue(self.transition(Transition.TRANSITION_CLEANUP))
        self.assertTrue(self.transition(Transition.TRANSITION_CONFIGURE), 'again')

    def test_what_cannot_be_configured_says_why_and_may_be_tried_again(self):
        for parameters, why in (({}, 'neither server nor target_path'), ({'target_path': '/no/model'}, '/no/model'),
                                ({'target_path': TARGET, 'model_path': '/no/draft'}, '/no/draft'),
                                ({'server': '127.0.0.1:9', 'model_path': DRAFT, 'start_timeout': 3.0}, 'cannot reach a server at 127.0.0.1:9'),
                                ({'url': 'http://127.0.0.1:9'}, 'outrider-edge serve'),
                                ({'url': 'http://127.0.0.1:9', 'act_pattern': '(x{action}'}, 'act_pattern'),
                                ({'url': 'http://127.0.0.1:9', 'act_pattern': 'Action'}, '{action}'),
                                ({'url': 'http://127.0.0.1:9', 'act_prompt': 'See'}, '{scene}'),
                                ({'url': 'http://127.0.0.1:9', 'diagnostics_period': -1.0}, 'diagnostics_period')):
            node = self.start(**parameters)
            self.assertFalse(self.transition(Transition.TRANSITION_CONFIGURE))
            eventually(lambda node=node, why=why: why in node.said(), node.said)
            node.stop()
            eventually(lambda: not self.change.service_is_ready())

    def test_a_node_that_waits_for_its_server_says_so_and_ends_with_its_edge(self):
        node = self.start(server='127.0.0.1:9', model_path=DRAFT)
        self.change.call_async(ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE)))
        eventually(lambda: 'not ready yet: cannot reach a server' in node.said(), node.said)
        edges = children(node.process.pid)
        self.assertEqual(len(edges), 1)
        node.stop()
        eventually(lambda: not any(map(is_running, edges)), 'the edge outlives its node')

    def test_an_edge_ends_with_a_node_that_is_killed(self):
        node = self.start_active()
        edges = children(node.process.pid)
        self.assertEqual(len(edges), 1)
        node.process.kill()
        eventually(lambda: not any(map(is_running, edges)), 'the edge outlives its node')

    def test_a_second_node_of_the_name_says_so(self):
        self.start_active()
        other = NodeProcess(target_path=TARGET)
        self.addCleanup(other.stop)
        eventually(lambda: 'another node has the name outrider' in other.said(), other.said)
        other.stop()  # requests to a name that two nodes have are answered by either
        self.assertNotIn('the edge answers', other.said())
        eventually(lambda: self.node.get_node_names().count('outrider') == 1)
        self.assertEqual(self.chat(max_tokens=1).finish_reason, 'length')


if __name__ == '__main__':
    run_tests()
