"""A link of TCP connections to a server on this machine, which can be cut in two manners and restored, and be bad.

  link = TcpLink(server.port); the edge connects to link.address
  link.reset()     connections are reset, new ones refused
  link.silence()   half-open: nothing is carried any more, and nobody is told; new connections hang
  link.silence_uplink()     .. in the direction to the server alone
  link.restore()   what was held back arrives, new connections are taken
  link.garble()    of each connection a bit changes in what the server says next
  link.slow_down(SECONDS)   for each piece, in each direction; 0 ends it
  link.lose(SHARE)          of the pieces, which come as late as TCP needs to send them again; 0 ends it
  link.move(ADDRESS)        the server sees new connections come from there, of 127.0.0.0/8

SPDX-License-Identifier: Apache-2.0
"""
import random
import selectors
import socket
import struct
import threading
import time

CHUNK = 1 << 16
SENT_AGAIN_SECONDS = (0.2, 1.0)  # Linux's shortest timer, and two doublings of it
HELD_SECONDS = 0.01
RESET_ON_CLOSE = struct.pack('ii', 1, 0)


class TcpLink:
    def __init__(self, server_port):
        self.server_port = server_port
        self.lock = threading.Lock()
        self.carries = threading.Event()
        self.carries.set()
        self.pairs, self.to_garble = [], set()
        self.source, self.delay, self.loss = '127.0.0.1', 0, 0
        self.carries_up, self.sent_again = True, 0
        self.listener = self._listen(0)
        self.port = self.listener.getsockname()[1]
        self.address = f'127.0.0.1:{self.port}'

    def _listen(self, port):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(('127.0.0.1', port))
        listener.listen(64)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener):
        while True:
            try:
                edge, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(edge,), daemon=True).start()

    def _connect(self, edge):
        self.carries.wait()
        try:
            server = socket.create_connection(('127.0.0.1', self.server_port), source_address=(self.source, 0))
        except OSError:
            return _reset(edge)
        for end in (edge, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.pairs.append((edge, server))
        self._carry(edge, server)

    def _carry(self, edge, server):
        other = {edge: server, server: edge}
        with selectors.DefaultSelector() as ready:
            try:
                for end in other:
                    ready.register(end, selectors.EVENT_READ)
                while True:
                    for key, _ in ready.select():
                        if key.fileobj is edge and not self.carries_up:
                            time.sleep(HELD_SECONDS)
                            continue
                        data = key.fileobj.recv(CHUNK)
                        self.carries.wait()
                        if not data:
                            return
                        self._dawdle()
                        if key.fileobj in self.to_garble:
                            self.to_garble.discard(key.fileobj)
                            data = data[:-1] + bytes([data[-1] ^ 1])
                        other[key.fileobj].sendall(data)
            except (OSError, ValueError):
                return
            finally:
                for end in other:
                    _reset(end)

    def _dawdle(self):
        if self.delay:
            time.sleep(self.delay)
        if random.random() < self.loss:
            self.sent_again += 1
            time.sleep(random.uniform(*SENT_AGAIN_SECONDS))

    def reset(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                _shut(end)

    def silence(self):
        self.carries.clear()

    def silence_uplink(self):
        self.carries_up = False

    def garble(self):
        with self.lock:
            self.to_garble = {server for _, server in self.pairs}

    def slow_down(self, seconds):
        self.delay = seconds

    def lose(self, share):
        self.loss = share

    def move(self, address):
        self.source = address

    def restore(self):
        self.carries.set()
        self.carries_up = True
        if self.listener.fileno() < 0:
            self.listener = self._listen(self.port)

    def close(self):
        self.restore()
        self.reset()


def _reset(end):
    """Closes with a reset, not with an orderly end."""
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    except OSError:
        pass
    end.close()


def _shut(end):
    """Wakes the thread that carries its bytes, which resets it."""
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        end.shutdown(socket.SHUT_RD)
    except OSError:
        pass
