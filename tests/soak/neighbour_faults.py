"""Edges and other clients that share the server with the decoding ones. Each returns whether it was seen to occur.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import signal
import socket
import time
import urllib.request

from link_faults import STANDSTILL_SECONDS
from scene import EXTRA, SETTLE_SECONDS, met

CROWD, READERS = 24, 20
OUTAGE_SECONDS = 5


def vanish(scene):
    """four more edges are killed in the middle of their answers"""
    began = [begun[0] for begun in (scene.begin_long() for _ in range(EXTRA)) if begun]
    for edge in began:
        edge.process.kill()
        edge.process.communicate()
    if not met(lambda: scene.server.metric('num_requests_running') <= len(scene.load.threads)):
        scene.load.wrong.append(f'after {SETTLE_SECONDS} s edges that are gone still hold their places')
    return bool(began)


def slow(scene):
    """one more edge stands still for three seconds in the middle of its answer"""
    begun = scene.begin_long()
    if begun is None:
        return False
    edge, prompt, way = begun
    edge.process.send_signal(signal.SIGSTOP)
    time.sleep(STANDSTILL_SECONDS)
    edge.process.send_signal(signal.SIGCONT)
    scene.load.end(edge, prompt, way)
    return True


def _crowd(scene, key=None, counter='sessions_refused_total', meanwhile=lambda: None):
    """Whether edges that came at once were asked to come back later; all answers are judged."""
    before = scene.server.metric(counter)
    drawn = [scene.load.draw(scene.source) for _ in range(CROWD)]
    crowd = [(scene.load.begin(prompt, way, key), prompt, way) for prompt, way in drawn]
    meanwhile()
    for begun in crowd:
        scene.load.end(*begun)
    return scene.server.metric(counter) > before


def overload(scene):
    """24 more edges come at once to a server with room for four"""
    return _crowd(scene)


def greedy(scene):
    """24 edges of another tenant with a quota of two sessions come at once"""
    return _crowd(scene, scene.greedy_key, 'calls_refused_total')


def herd(scene):
    """24 more edges and the others come at once when their common link is back after five seconds"""
    before = scene.load.reconnects

    def outage():
        scene.link.reset()
        time.sleep(OUTAGE_SECONDS)
        scene.link.restore()

    return _crowd(scene, meanwhile=outage) and scene.reconnected(before)


def scrape(scene):
    """twenty readers of /metrics never finish their request"""
    address = next(line for line in scene.server.log if line.split()[:1] == ['metrics']).split()[1]
    host, port = address.removeprefix('http://').split(':')
    with contextlib.ExitStack() as readers:
        for _ in range(READERS):
            reader = readers.enter_context(socket.create_connection((host, int(port))))
            reader.sendall(b'GET /metrics HTTP/1.1\r\nHost: ')
        time.sleep(STANDSTILL_SECONDS)
        return urllib.request.urlopen(f'{address}/metrics', timeout=30).status == 200


FAULTS = (vanish, slow, overload, greedy, herd, scrape)
