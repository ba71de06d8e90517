"""A link of TCP connections to a server on this machine, which can be cut in two manners and restored, and degraded:
outrider-link with commands on its standard input.

  link = TcpLink(server.port); the edge connects to link.address
  link.reset()     connections are reset, new ones refused
  link.silence()   half-open: nothing is carried, and neither side is notified; new connections hang
  link.silence_uplink()     the same, only towards the server
  link.restore()   held data arrives, new connections are accepted
  link.garble()    one bit flips in the next data from the server on each connection
  link.become(PROFILE)      as outrider-link --profile: delay=400ms, ethernet+loss=30%
  link.lead_to(server.address)  new connections go to this server
  link.move(ADDRESS)        new connections come from this address in 127.0.0.0/8
  link.counts()    what happened to the pieces it carried, since the last become()

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import threading

from edges import BIN, ending_with_us

PLAIN = 'delay=0ms'


class TcpLink:
    def __init__(self, server_port):
        self.lock = threading.Lock()
        self.process = subprocess.Popen(ending_with_us(BIN / 'outrider-link', '--to', f'127.0.0.1:{server_port}', '--profile', PLAIN),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[1]
        self.port = int(self.address.rsplit(':', 1)[1])

    def _ask(self, command):
        with self.lock:
            self.process.stdin.write(command + '\n')
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()

    def _tell(self, command):
        answer = self._ask(command)
        if answer != 'ok':
            raise RuntimeError(f'outrider-link: {command}: {answer}')

    def reset(self):
        self._tell('reset')

    def silence(self):
        self._tell('silence')

    def silence_uplink(self):
        self._tell('silence up')

    def restore(self):
        self._tell('restore')

    def garble(self):
        self._tell('garble')

    def become(self, profile=PLAIN):
        self._tell(f'profile {profile}')

    def lead_to(self, address):
        self._tell(f'to {address}')

    def move(self, address):
        self._tell(f'from {address}')

    def counts(self):
        return json.loads(self._ask('counts'))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
