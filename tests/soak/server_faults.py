"""Faults of the server. Each returns whether it was seen to occur.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import signal
import ssl
import sys
import time

from link_faults import stood_still
from scene import met
from stuck_thread import StuckThread, sleeping_thread

PASS_LIMIT_SECONDS, MOST_OVER_LIMIT_SECONDS = 4, 2
SLOW_PASS_MS = 100  # so that an emulated pass is stopped while it sleeps
EXIT_HUNG = 75
HOUR = 3600


def kill(scene):
    """the server is killed, and started again on the same port"""
    before = scene.load.reconnects
    scene.server.kill()
    time.sleep(scene.source.choice((0, 0.2)))
    scene.restart()
    return scene.reconnected(before)


def drain(scene):
    """.. is asked to end (SIGTERM), does so with exit code 0, and is started again"""
    if scene.server.stop() != 0:
        scene.load.wrong.append('a draining server ended with another exit code than 0')
    scene.restart()
    return True


def hang(scene):
    """.. stands still for three seconds (SIGSTOP)"""
    scene.server.process.send_signal(signal.SIGSTOP)
    stood = stood_still(scene)
    scene.server.process.send_signal(signal.SIGCONT)
    return stood


def stuck(scene):
    """.. has a pass that never ends: its watchdog ends it in time, it is restarted, and answers continue"""
    scene.server.kill()
    scene.restart('--pass-limit', PASS_LIMIT_SECONDS, pace_ms=SLOW_PASS_MS)
    answered = scene.load.count
    computing = met(lambda: scene.load.count > answered and sleeping_thread(scene.server.process.pid))
    if not computing:
        return False
    before, begin = scene.load.reconnects, time.monotonic()
    with StuckThread(computing) as thread:
        ended = thread.ends_within(PASS_LIMIT_SECONDS + MOST_OVER_LIMIT_SECONDS)
    print(f'stuck for {time.monotonic() - begin:.1f} s of at most {PASS_LIMIT_SECONDS}', file=sys.stderr)
    if not ended:
        scene.load.wrong.append(f'a pass that hangs did not end the server within its limit and {MOST_OVER_LIMIT_SECONDS} s')
        scene.server.kill()
    elif scene.server.process.wait() != EXIT_HUNG:
        scene.load.wrong.append(f'a server whose pass hangs ended with another exit code than {EXIT_HUNG}')
    scene.restart()
    return scene.reconnected(before)


def rotate(scene):
    """the server's certificate and key are replaced, and new connections get the new one"""
    def shown():
        return ssl.get_server_certificate(('127.0.0.1', scene.server.port))
    before = shown()
    scene.authority.issue()
    return met(lambda: shown() != before)


def disk(scene):
    """the disk with the server's log is full for a while (as root only)"""
    if scene.small_disk is None:
        print('disk: only root may mount one', file=sys.stderr)
        return False
    before, lost = scene.load.count, scene.server.metric('log_lines_lost_total')
    filler = scene.small_disk / 'filler'
    with contextlib.suppress(OSError), filler.open('wb', buffering=0) as file:
        while True:
            file.write(bytes(1024))
    full = met(lambda: scene.server.metric('log_lines_lost_total') > lost and scene.load.count > before)
    filler.unlink()
    written = (scene.small_disk / 'log').stat().st_size
    if not met(lambda: (scene.small_disk / 'log').stat().st_size > written):
        scene.load.wrong.append('the log does not go on after the disk was full')
    return full


def clock(scene):
    """the server's wall clock jumps an hour ahead, then an hour behind (Debian's faketime)"""
    if scene.clock is None:
        print('clock: faketime is not installed. Remedy: apt-get install faketime', file=sys.stderr)
        return False
    seen = []
    for hours in (1, -1, 0):
        before = scene.load.count
        scene.clock.write_text(f'{hours:+d}h', encoding='ascii')
        wall = time.strftime('%H:', time.gmtime(time.time() + hours * HOUR))
        seen.append(met(lambda at=wall, since=before: scene.load.count > since and scene.last_log_line().startswith(at)))
    return all(seen)


FAULTS = (kill, drain, hang, stuck, rotate, disk, clock)
