"""The lifecycle node `outrider`: actions Chat and Act, services GetLink and ListModels, /diagnostics.

Configured, it has an edge: one of its own (outrider-edge serve, started and ended with the node), or one that runs at
`url`. Active, it takes goals. An edge decodes one answer after the other, so goals wait for each other; each can be
cancelled while it waits or runs.

It asks the edge over HTTP, and not in its own process: an edge that ends takes no node along, and the node is the same
for every ROS distribution.

Thread rule: callbacks run on the executor's threads; requests on one thread with an event loop, where cancelling a
goal closes its request at once.

SPDX-License-Identifier: Apache-2.0
"""
import asyncio
import glob
import queue
import sys
import threading
import time
from typing import Any, Callable, Dict, Optional

import outrider
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from outrider_interfaces.action import Act, Chat
from outrider_interfaces.srv import GetLink, ListModels
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rcl_interfaces.msg import ParameterDescriptor

from outrider_ros import settings

NAMESAKE_SECONDS = 0.5  # how often a node looks for another of its name
LOOK_SECONDS = 0.02  # how often a running goal looks whether it is cancelled
MAX_GOALS = 16  # that run or wait; each holds a thread
OTHER_THREADS = 4  # for cancels, services and diagnostics


class Requests:
    """A thread with an event loop that asks the edge."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = outrider.AsyncClient(url)

    def stream(self, *words: Any, **fields: Any) -> 'Events':
        return Events(self._loop, self._client.stream(*words, **fields))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class Events:
    """The events of one answer, for a thread that also has to look for a cancel."""

    def __init__(self, loop: asyncio.AbstractEventLoop, events: Any) -> None:
        self._queue: 'queue.Queue[Any]' = queue.Queue()
        self._future = asyncio.run_coroutine_threadsafe(self._read(events), loop)

    async def _read(self, events: Any) -> None:
        try:
            async for event in events:
                self._queue.put(event)
        except Exception as error:  # pylint: disable=broad-except  # goes to the goal
            self._queue.put(error)
        finally:
            await events.aclose()

    def next(self) -> Any:
        """The next event; None: none has come yet. Raises what ended the answer."""
        try:
            event = self._queue.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return None
        if isinstance(event, Exception):
            raise event
        return event

    def cancel(self) -> None:
        self._future.cancel()


def temperature() -> Optional[float]:
    """The temperature of the hottest zone of this device, in degrees Celsius; None where it reports none."""
    hottest = None
    for path in glob.glob('/sys/class/thermal/thermal_zone*/temp'):
        try:
            with open(path, encoding='ascii') as file:
                degrees = int(file.read()) / 1000
        except (OSError, ValueError):
            continue  # a sensor that is off
        hottest = degrees if hottest is None else max(hottest, degrees)
    return hottest


class OutriderNode(LifecycleNode):
    def __init__(self, **options: Any) -> None:
        super().__init__('outrider', **options)
        for name, default, text in settings.PARAMETERS:
            self.declare_parameter(name, default, ParameterDescriptor(description=text))
        self._edge: Optional[outrider.Edge] = None
        self._client: Optional[outrider.Client] = None
        self._requests: Optional[Requests] = None
        self._active = False
        self._last = settings.Figures()
        self._looked_at = time.monotonic()
        self._parts: list = []
        self._goals = 0
        self._goals_lock = threading.Lock()
        self._ends = False
        group = ReentrantCallbackGroup()
        self._group = group
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        for kind, name, run in ((Chat, 'chat', self._chat), (Act, 'act', self._act)):
            self._parts.append(ActionServer(self, kind, f'~/{name}', execute_callback=self._counted(run), callback_group=group,
                                            goal_callback=self._may_begin, cancel_callback=lambda _: CancelResponse.ACCEPT))
        self.create_service(GetLink, '~/get_link', self._get_link, callback_group=group)
        self.create_service(ListModels, '~/list_models', self._list_models, callback_group=group)
        self._timer = None
        self._has_namesake = False
        self.create_timer(NAMESAKE_SECONDS, self._look_for_namesake, callback_group=group)

    def _look_for_namesake(self) -> None:
        """Two nodes of one name would answer each other's goals. A node that has died may be seen for some seconds."""
        before = self._has_namesake
        self._has_namesake = self.get_node_names_and_namespaces().count((self.get_name(), self.get_namespace())) > 1
        if self._has_namesake and not before:
            self.get_logger().error(f'another node has the name {self.get_name()}, so this one cannot be configured. Remedy: give it '
                                    'another, as __node:=NAME, or end the other one')

    def _settings(self) -> Dict[str, Any]:
        return {name: self.get_parameter(name).value for name, _, _ in settings.PARAMETERS}

    # --- lifecycle ------------------------------------------------------------------------------

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        parameters = self._settings()
        if self._has_namesake:
            self.get_logger().error(f'cannot configure: another node has the name {self.get_name()}')
            return TransitionCallbackReturn.FAILURE
        try:
            settings.check(parameters)
            url = parameters['url']
            if not url:
                self._edge = outrider.Edge(*settings.edge_flags(parameters), patience=None)
                self._wait_for(self._edge, parameters['start_timeout'])
                url = self._edge.url
            self._client = outrider.Client(url)
            self._client.link()  # says at once that nothing answers
        except Exception as error:  # pylint: disable=broad-except  # rclpy would drop it without a word
            self.get_logger().error(f'cannot configure: {error}')
            self._close()
            return TransitionCallbackReturn.FAILURE
        self._requests = Requests(url)
        self._timer = self.create_timer(parameters['diagnostics_period'], self._publish_diagnostics, callback_group=self._group)
        self.get_logger().info(f'the edge answers at {url}')
        return super().on_configure(state)

    def _wait_for(self, edge: outrider.Edge, seconds: float) -> None:
        """Says what it waits for, once for each reason."""
        said, until = '', time.monotonic() + seconds
        while not edge.wait_until_ready(0.1):
            if self._ends or time.monotonic() >= until:
                raise outrider.OutriderError('the node ends' if self._ends else f'the edge is not ready after {seconds:g} s: '
                                             f'{edge.waits_for or "it still loads"}. Remedy: a larger start_timeout, or what it waits for')
            if edge.waits_for != said:
                said = edge.waits_for
                self.get_logger().warning(f'the edge is not ready yet: {said}')

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        self._active = True
        return super().on_activate(state)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        self._active = False
        return super().on_deactivate(state)

    def on_cleanup(self, state: Any) -> TransitionCallbackReturn:
        self._close()
        return super().on_cleanup(state)

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        self._close()
        return super().on_shutdown(state)

    def _close(self) -> None:
        self._active = False
        if self._timer is not None:
            self.destroy_timer(self._timer)
            self._timer = None
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._edge is not None:
            self._edge.close()
            self._edge = None

    # --- actions --------------------------------------------------------------------------------

    def _may_begin(self, _: Any) -> GoalResponse:
        with self._goals_lock:
            why = 'the node is not active' if not self._active else f'{MAX_GOALS} goals wait already' if self._goals >= MAX_GOALS else ''
            self._goals += 0 if why else 1
        if why:
            self.get_logger().warning(f'a goal is refused because {why}')
        return GoalResponse.REJECT if why else GoalResponse.ACCEPT

    def _counted(self, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Runs a goal that _may_begin() has counted."""
        def counted(goal: Any) -> Any:
            try:
                return run(goal)
            finally:
                with self._goals_lock:
                    self._goals -= 1
        return counted

    def _ask(self, prompt: Any, **fields: Any) -> Events:
        if self._requests is None:
            raise outrider.OutriderError('the node is not configured')
        return self._requests.stream(prompt, **fields)

    def _is_over(self, goal: Any) -> bool:
        return goal.is_cancel_requested or not self._active

    def _chat(self, goal: Any) -> Chat.Result:
        began, wanted, parameters = time.monotonic(), goal.request, self._settings()
        result = Chat.Result()

        def end(reason: str, message: str = '') -> Chat.Result:
            result.finish_reason, result.message, result.seconds = reason, message, time.monotonic() - began
            return result

        fields: Dict[str, Any] = {
            'max_tokens': wanted.max_tokens or parameters['n_predict'],
            'temperature': wanted.temperature if wanted.temperature >= 0 else parameters['temp'],
            'seed': wanted.seed or parameters['seed']}
        try:
            if wanted.level:
                fields['model'] = self._model_at(wanted.level)
            events = self._ask(settings.messages_of(wanted.roles, wanted.contents), **fields)
            while True:
                if self._is_over(goal):
                    events.cancel()
                    goal.canceled() if goal.is_cancel_requested else goal.abort()
                    return end('cancelled', '' if goal.is_cancel_requested else 'the node was deactivated')
                event = events.next()
                if isinstance(event, outrider.Text):
                    result.text += event.text
                    goal.publish_feedback(Chat.Feedback(text=result.text, mode=self._last.mode,
                                                        drafted_share=event.accepted_draft_tokens / max(event.completion_tokens, 1)))
                elif isinstance(event, outrider.Done):
                    figures = event.answer.figures
                    result.prompt_tokens, result.completion_tokens = figures.prompt_tokens, figures.completion_tokens
                    result.drafted_tokens = figures.accepted_draft_tokens
                    goal.succeed()
                    return end(event.answer.finish_reason)
        except (ValueError, outrider.OutriderError) as error:
            goal.abort()
            return end('error', str(error))

    def _act(self, goal: Any) -> Act.Result:
        began, wanted, parameters = time.monotonic(), goal.request, self._settings()
        result = Act.Result()
        by_deadline: Optional[str] = None

        def end(outcome: str, message: str = '') -> Act.Result:
            result.outcome, result.message, result.seconds = outcome, message, time.monotonic() - began
            return result

        def give(action: str, verified: bool) -> None:
            goal.publish_feedback(Act.Feedback(action=action, verified=verified, seconds=time.monotonic() - began))

        try:
            task = settings.task_of(wanted.scene, wanted.task, wanted.actions, parameters)
            slo = outrider.Slo(wanted.deadline_ms or parameters['deadline_ms'], unverified=True)
            fields = {'slo': slo, 'max_tokens': parameters['n_predict'], 'temperature': parameters['temp'], 'seed': parameters['seed']}
            events = self._ask(task.prompt, structured_outputs={'regex': task.constraint}, **fields)
            while True:
                if self._is_over(goal):
                    events.cancel()
                    goal.canceled() if goal.is_cancel_requested else goal.abort()
                    return end('cancelled', '' if goal.is_cancel_requested else 'the node was deactivated')
                event = events.next()
                if isinstance(event, outrider.Text):
                    result.text += event.text
                elif isinstance(event, outrider.Unverified):
                    by_deadline = task.action_in(result.text + event.continuation)
                    if by_deadline is not None:
                        give(by_deadline, verified=False)
                elif isinstance(event, outrider.Done):
                    action = task.action_in(event.answer.text)
                    if action is None:
                        goal.abort()
                        return end('error', f'the answer has none of the declared actions: {event.answer.text!r}')
                    result.action = action
                    give(action, verified=True)
                    goal.succeed()
                    if by_deadline is not None:
                        return end('confirmed' if by_deadline == action else 'corrected')
                    return end('in_time' if event.answer.unverified_outcome == 'in_time' else 'late')
        except (ValueError, outrider.OutriderError) as error:
            goal.abort()
            return end('error', str(error))

    def _model_at(self, level: str) -> str:
        assert self._client is not None
        names = self._client.models()
        for name in names:
            if name.endswith(f'@{level}'):
                return name
        raise ValueError(f'level: {level!r} is none of the target\'s: {", ".join(names)}')

    # --- services and diagnostics ---------------------------------------------------------------

    def _get_link(self, _: Any, response: GetLink.Response) -> GetLink.Response:
        if self._client is None:
            response.decides, response.link = '', 'none'
            return response
        try:
            link = self._client.link()
            response.decides, response.link, response.answering, response.waiting = link.decides, link.link, link.running, link.waiting
        except outrider.OutriderError as error:
            self.get_logger().warning(f'get_link: {error}')
            response.link = 'down'
        return response

    def _list_models(self, _: Any, response: ListModels.Response) -> ListModels.Response:
        try:
            response.names = self._client.models() if self._client is not None else []
        except outrider.OutriderError as error:
            self.get_logger().warning(f'list_models: {error}')
        return response

    def _publish_diagnostics(self) -> None:
        status = DiagnosticStatus(name='outrider: edge', hardware_id='outrider')
        values: Dict[str, Any] = {}
        try:
            assert self._client is not None
            now, link = settings.figures_of(self._client.metrics()), self._client.link()
            since = time.monotonic() - self._looked_at
            values = {'mode': now.mode, 'decides': link.decides, 'link': link.link, 'waiting': link.waiting, 'failovers': int(now.failovers),
                      'tokens per second': f'{max(now.tokens - self._last.tokens, 0) / max(since, 1e-3):.1f}',
                      'drafted share': f'{now.drafted / max(now.tokens, 1):.2f}'}
            values.update({f'kv cache of the {cache}': f'{usage:.3f}' for cache, usage in now.kv_usage.items()})
            if now.joules is not None:
                values['joules'] = f'{now.joules:.1f}'
            self._last, self._looked_at = now, time.monotonic()
            status.level, status.message = {
                'online': (DiagnosticStatus.OK, 'the server verifies'),
                'offline': (DiagnosticStatus.OK if link.link == 'none' else DiagnosticStatus.WARN, 'the target on this robot answers'),
            }.get(now.mode, (DiagnosticStatus.WARN, 'the link to the server is coming back'))
        except (AssertionError, outrider.OutriderError) as error:
            status.level, status.message = DiagnosticStatus.ERROR, f'the edge does not answer: {error}'
        hottest = temperature()
        if hottest is not None:
            values['temperature'] = f'{hottest:.1f} C'
        status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)


def main() -> None:
    rclpy.init(args=sys.argv)
    node = OutriderNode()
    executor = MultiThreadedExecutor(num_threads=MAX_GOALS + OTHER_THREADS)
    executor.add_node(node)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node._ends = True  # pylint: disable=protected-access  # it may still wait for its edge
        node._close()  # pylint: disable=protected-access  # the edge ends with the node
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == '__main__':
    main()
