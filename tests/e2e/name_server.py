"""A name server for one name with any number of IPv4 addresses, like the DNS of a cluster.

SPDX-License-Identifier: Apache-2.0
"""
import socket
import struct
import threading

TYPE_A = 1
ANSWER_FLAGS = 0x8180  # an answer, recursion available
HEADER = 12  # bytes of a message's head (RFC 1035, section 4.1.1)
POINTER_TO_NAME = 0xC000 | HEADER


class NameServer:
    """`addresses` may change at any time."""

    def __init__(self, addresses):
        self.addresses = list(addresses)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(('127.0.0.1', 0))
        self.address = f'127.0.0.1:{self.socket.getsockname()[1]}'
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                message, peer = self.socket.recvfrom(4096)
                self.socket.sendto(self._answer(message), peer)
            except OSError:
                return

    def _answer(self, message):
        end = message.index(b'\0', HEADER) + 5  # of the question: a name, its type and class
        kind = struct.unpack('>H', message[end - 4:end - 2])[0]
        known = self.addresses if kind == TYPE_A else []
        records = b''.join(struct.pack('>HHHIH', POINTER_TO_NAME, TYPE_A, 1, 1, 4) + socket.inet_aton(address) for address in known)
        return message[:2] + struct.pack('>HHHHH', ANSWER_FLAGS, 1, len(known), 0, 0) + message[HEADER:end] + records

    def close(self):
        self.socket.close()
