"""Faults of the link between the edges and their server. Each returns whether it was seen to occur.

SPDX-License-Identifier: Apache-2.0
"""
import ssl
import time

STANDSTILL_SECONDS, STALL_SECONDS = 3, 45  # the longer one is detected by unanswered pings
UPLINK_SECONDS = 78  # the longest silence of an LTE uplink in the traces of mahimahi (AT&T, driving)
FLAPS, FLAP_SECONDS = 6, 0.5
BAD_SECONDS, ONE_WAY_SECONDS = 8, 0.4
LOSS_PERCENT = 30  # of the pieces


def stood_still(scene):
    """No edge got an answer, except answers that were in flight."""
    time.sleep(1)
    before = scene.load.count
    time.sleep(STANDSTILL_SECONDS - 1)
    return scene.load.count == before


def reset(scene):
    """connections are reset, and new ones refused for up to a second"""
    before = scene.load.reconnects
    scene.link.reset()
    time.sleep(scene.source.uniform(0, 1))
    scene.link.restore()
    return scene.reconnected(before)


def silence(scene):
    """for three seconds the link carries nothing, and neither side is notified"""
    scene.link.silence()
    stood = stood_still(scene)
    scene.link.restore()
    return stood


def _outlast(scene, fall_silent, seconds):
    before = scene.load.reconnects
    fall_silent()
    time.sleep(seconds)
    scene.link.restore()
    return scene.reconnected(before)


def stall(scene):
    """.. for so long that edges give the connection up"""
    return _outlast(scene, scene.link.silence, STALL_SECONDS)


def uplink(scene):
    """for 78 s nothing reaches the server; the held data arrives late"""
    return _outlast(scene, scene.link.silence_uplink, UPLINK_SECONDS)


def flap(scene):
    """the link is reset six times, for half a second each"""
    before = scene.load.reconnects
    for _ in range(FLAPS):
        scene.link.reset()
        time.sleep(FLAP_SECONDS)
        scene.link.restore()
        time.sleep(FLAP_SECONDS)
    return scene.reconnected(before)


def garble(scene):
    """one bit flips on each connection on its way to the edge"""
    before = scene.load.reconnects
    scene.link.garble()
    return scene.reconnected(before)


def move(scene):
    """edges are reset and come back from another address"""
    before = scene.load.reconnects
    scene.link.move(f'127.0.0.{scene.source.randint(2, 250)}')
    scene.link.reset()
    scene.link.restore()
    return scene.reconnected(before)


def _greeting_seconds(scene):
    begin = time.monotonic()
    ssl.get_server_certificate(('127.0.0.1', scene.link.port))
    return time.monotonic() - begin


def jump(scene):
    """for eight seconds a round trip takes 0.8 s longer"""
    scene.link.become(f'delay={1e3 * ONE_WAY_SECONDS:.0f}ms')
    greeting = _greeting_seconds(scene)
    time.sleep(BAD_SECONDS)
    scene.link.become()
    return greeting >= 2 * ONE_WAY_SECONDS


def loss(scene):
    """for eight seconds three of ten pieces are lost, and come as late as TCP needs to send them again"""
    scene.link.become(f'delay=0ms+loss={LOSS_PERCENT}%')
    time.sleep(BAD_SECONDS)
    counts = scene.link.counts()
    scene.link.become()
    return counts['up']['lost'] + counts['down']['lost'] > 0


FAULTS = (reset, silence, stall, uplink, flap, garble, move, jump, loss)
