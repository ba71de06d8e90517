#!/usr/bin/env python3
"""Faults of a server, its link and its neighbours at random moments while eight edges decode; every answer is held
against an undisturbed one: the same tokens, none lost, none repeated. All speak TLS.

  bench/service/faults.py [--faults kill,drain,...] [--times 10] [--sessions 8] [--prompts FILE.jsonl] [--seed 0]

  kill      the server is killed, and started again on the same port
  drain     .. is asked to end (SIGTERM), does so with exit code 0, and is started again
  hang      .. stands still for three seconds (SIGSTOP)
  reset     connections are reset, and new ones refused for up to a second
  silence   for three seconds the link carries nothing, and tells nobody
  stall     .. for so long that edges give the connection up
  flap      .. is reset six times, for half a second each
  garble    of each connection a bit changes on its way to the edge
  move      edges are reset and come back from another address
  jump      for eight seconds a round trip takes 0.8 s longer
  vanish    four more edges are killed in the middle of their answers
  slow      one more edge stands still for three seconds in the middle of its answer
  overload  24 more edges come at once to a server with room for four
  scrape    twenty readers of /metrics never finish their request
  rotate    the server's certificate and key are replaced, and new connections get the new one
  disk      the disk that the server's log is on is full for a while (as root only)

Nothing is shown (exit code 4) unless each fault was seen to occur.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import contextlib
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'offline'))
from authority import Authority  # noqa: E402
from edges import ROOT, Server, read_prompts  # noqa: E402
from load import Load  # noqa: E402
from outcome import Outcome  # noqa: E402
from tcp_link import TcpLink  # noqa: E402

EXTRA = 4  # places for edges beside the load
FLAGS = ('--pace-pass-ms', '4', '--metrics-port', '0')
STANDSTILL_SECONDS, STALL_SECONDS = 3, 45  # the longer one is noticed by pings that nobody answers
FLAPS, FLAP_SECONDS = 6, 0.5
JUMP_SECONDS, ONE_WAY_SECONDS = 8, 0.4
SETTLE_SECONDS = 20  # in which edges must be back, those that are gone noticed, and files of certificates read again
UP_SECONDS = (0.3, 1.5)  # between faults
CROWD, READERS = 24, 20
BEGINNINGS = 20  # that are tried until one is caught in the middle of its answer


class Scene:
    """A server, the link to it, and the edges that decode meanwhile."""

    def __init__(self, options):
        self.source = random.Random(options.seed)
        self.folder = tempfile.TemporaryDirectory()
        self.authority = Authority(Path(self.folder.name))
        self.small_disk = self._mount() if 'disk' in options.faults else None
        log = ('--log-file', self.small_disk / 'log') if self.small_disk else ()
        self.flags = (*FLAGS, *log, *self.authority.server_flags(), '--max-concurrent-sessions', options.sessions + EXTRA)
        self.server = Server(*self.flags)
        self.link = TcpLink(self.server.port)
        prompts = read_prompts(options.prompts, 6) if options.prompts else [
            (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip(), 'Bring the green cup.', 'Why is the sky blue?']
        self.load = Load(self.link.address, prompts, options.sessions, options.max_tokens, options.seed,
                         '--tls-ca', self.authority.ca)

    def _mount(self):
        """A disk of 4 MB; None if this user may not mount one."""
        disk = Path(self.folder.name) / 'disk'
        disk.mkdir()
        mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m', 'small', disk], capture_output=True, check=False)
        return disk if mounted.returncode == 0 else None

    def end(self):
        self.load.stop()
        self.link.close()
        self.server.stop()
        if self.small_disk:
            subprocess.run(['umount', self.small_disk], check=True)
        self.folder.cleanup()

    def restart(self):
        self.server = Server(*self.flags, port=self.server.port)

    def begin_long(self):
        """One more edge: (edge, prompt, way), in the middle of its answer; None if all were too quick."""
        for _ in range(BEGINNINGS):
            prompt, way = self.load.draw(self.source)
            edge = self.load.begin(prompt, way)
            time.sleep(0.3)
            if edge.process.poll() is None:
                return edge, prompt, way
            self.load.end(edge, prompt, way)
        return None


# Each fault says whether it was seen to occur.


def _met(condition):
    """Whether it came true, in time."""
    give_up = time.monotonic() + SETTLE_SECONDS
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def kill(scene):
    before = scene.load.reconnects
    scene.server.kill()
    time.sleep(scene.source.choice((0, 0.2)))
    scene.restart()
    return _met(lambda: scene.load.reconnects > before)


def drain(scene):
    if scene.server.stop() != 0:
        scene.load.wrong.append('a draining server ended with another exit code than 0')
    scene.restart()
    return True


def reset(scene):
    before = scene.load.reconnects
    scene.link.reset()
    time.sleep(scene.source.uniform(0, 1))
    scene.link.restore()
    return _met(lambda: scene.load.reconnects > before)


def _stood_still(scene):
    """Nobody got an answer, but for those that were on their way."""
    time.sleep(1)
    before = scene.load.count
    time.sleep(STANDSTILL_SECONDS - 1)
    return scene.load.count == before


def hang(scene):
    scene.server.process.send_signal(signal.SIGSTOP)
    stood = _stood_still(scene)
    scene.server.process.send_signal(signal.SIGCONT)
    return stood


def silence(scene):
    scene.link.silence()
    stood = _stood_still(scene)
    scene.link.restore()
    return stood


def stall(scene):
    before = scene.load.reconnects
    scene.link.silence()
    time.sleep(STALL_SECONDS)
    scene.link.restore()
    return _met(lambda: scene.load.reconnects > before)


def flap(scene):
    before = scene.load.reconnects
    for _ in range(FLAPS):
        scene.link.reset()
        time.sleep(FLAP_SECONDS)
        scene.link.restore()
        time.sleep(FLAP_SECONDS)
    return _met(lambda: scene.load.reconnects > before)


def garble(scene):
    before = scene.load.reconnects
    scene.link.garble()
    return _met(lambda: scene.load.reconnects > before)


def move(scene):
    before = scene.load.reconnects
    scene.link.move(f'127.0.0.{scene.source.randint(2, 250)}')
    scene.link.reset()
    scene.link.restore()
    return _met(lambda: scene.load.reconnects > before)


def jump(scene):
    scene.link.slow_down(ONE_WAY_SECONDS)
    begin = time.monotonic()
    ssl.get_server_certificate(('127.0.0.1', scene.link.port))
    greeting = time.monotonic() - begin
    time.sleep(JUMP_SECONDS)
    scene.link.slow_down(0)
    return greeting >= 2 * ONE_WAY_SECONDS


def vanish(scene):
    began = [begun[0] for begun in (scene.begin_long() for _ in range(EXTRA)) if begun]
    for edge in began:
        edge.process.kill()
        edge.process.communicate()
    if not _met(lambda: scene.server.metric('num_requests_running') <= len(scene.load.threads)):
        scene.load.wrong.append(f'after {SETTLE_SECONDS} s edges that are gone still hold their places')
    return bool(began)


def slow(scene):
    begun = scene.begin_long()
    if begun is None:
        return False
    edge, prompt, way = begun
    edge.process.send_signal(signal.SIGSTOP)
    time.sleep(STANDSTILL_SECONDS)
    edge.process.send_signal(signal.SIGCONT)
    scene.load.end(edge, prompt, way)
    return True


def overload(scene):
    before = scene.server.metric('sessions_refused_total')
    crowd = [(prompt, way, scene.load.begin(prompt, way)) for prompt, way in (scene.load.draw(scene.source) for _ in range(CROWD))]
    for prompt, way, edge in crowd:
        scene.load.end(edge, prompt, way)
    refused = scene.server.metric('sessions_refused_total') > before
    return refused


def scrape(scene):
    address = next(line for line in scene.server.log if line.split()[:1] == ['metrics']).split()[1]
    host, port = address.removeprefix('http://').split(':')
    with contextlib.ExitStack() as readers:
        for _ in range(READERS):
            reader = readers.enter_context(socket.create_connection((host, int(port))))
            reader.sendall(b'GET /metrics HTTP/1.1\r\nHost: ')
        time.sleep(STANDSTILL_SECONDS)
        answered = urllib.request.urlopen(f'{address}/metrics', timeout=30).status == 200
    return answered


def rotate(scene):
    def shown():
        return ssl.get_server_certificate(('127.0.0.1', scene.server.port))
    before = shown()
    scene.authority.issue()
    return _met(lambda: shown() != before)


def disk(scene):
    if scene.small_disk is None:
        print('disk: only root may mount one', file=sys.stderr)
        return False
    before, lost = scene.load.count, scene.server.metric('log_lines_lost_total')
    filler = scene.small_disk / 'filler'
    with contextlib.suppress(OSError), filler.open('wb', buffering=0) as file:
        while True:
            file.write(bytes(1024))
    full = _met(lambda: scene.server.metric('log_lines_lost_total') > lost and scene.load.count > before)
    filler.unlink()
    written = (scene.small_disk / 'log').stat().st_size
    if not _met(lambda: (scene.small_disk / 'log').stat().st_size > written):
        scene.load.wrong.append('the log does not go on after the disk was full')
    return full


FAULTS = {fault.__name__: fault for fault in (kill, drain, hang, reset, silence, stall, flap, garble, move, jump, vanish, slow,
                                              overload, scrape, rotate, disk)}


def run(options, outcome):
    scene = Scene(options)
    occurred = collections.Counter()
    try:
        scene.load.start()
        for number in range(options.times):
            for name in options.faults:
                time.sleep(scene.source.uniform(*UP_SECONDS))
                occurred[name] += FAULTS[name](scene)
                print(f'{name} {number + 1}/{options.times}: {scene.load.count} answers, {scene.load.reconnects} reconnects, '
                      f'{len(scene.load.wrong)} wrong', file=sys.stderr)
    finally:
        scene.end()
    outcome.figures.update({'times': options.times, 'occurred': dict(occurred), 'sessions': options.sessions,
                            'answers': scene.load.count, 'reconnects': scene.load.reconnects, 'seed': options.seed})
    for why, times in collections.Counter(scene.load.wrong).items():
        outcome.fail(f'{times} x {why}')
    for name in options.faults:
        if occurred[name] < options.times:
            outcome.show_nothing(f'{name} was seen to occur {occurred[name]} times of {options.times}')
    wrong = len(scene.load.wrong)
    outcome.hold('answers with another text, or none', (wrong, wrong, wrong), 0, at_least=False)


def fault_names(text):
    names = text.split(',')
    for name in names:
        if name not in FAULTS:
            raise argparse.ArgumentTypeError(f"'{name}' is none. Remedy: some of {','.join(FAULTS)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--faults', type=fault_names, default=list(FAULTS), help='a comma list [all]')
    parser.add_argument('--times', type=int, default=10, help='each')
    parser.add_argument('--sessions', type=int, default=8)
    parser.add_argument('--prompts', help='JSONL file with "prompt" [three of our own]')
    parser.add_argument('--max-tokens', type=int, default=120)
    parser.add_argument('--seed', type=int, default=0)
    outcome = Outcome('faults')
    run(parser.parse_args(), outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
