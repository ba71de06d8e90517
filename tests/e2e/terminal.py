"""A terminal for tests: a pseudo-terminal with a program on it, and what its screen shows.

SPDX-License-Identifier: Apache-2.0
"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

from programs import ANSWER_SECONDS, CLEAN_ENVIRONMENT, ending_with_us, eventually

LEFT, UP = '\x1b[D', '\x1b[A'
CTRL_C, CTRL_D, BACKSPACE, DELETE = '\x03', '\x04', '\x7f', '\x1b[3~'
# Terminals write them differently: xterm in its two modes, VT220, rxvt, xterm with Shift; F1 on Linux's console is last.
HOME_KEYS = ('\x1b[H', '\x1bOH', '\x1b[1~', '\x1b[7~', '\x1b[1;2H')
END_KEYS = ('\x1b[F', '\x1bOF', '\x1b[4~', '\x1b[8~', '\x1b[1;2F')
PAGE_KEYS = ('\x1b[5~', '\x1b[6~', '\x1b[5;5~', '\x1b[2~')
FUNCTION_KEYS = ('\x1bOP', '\x1b[11~', '\x1b[15~', '\x1b[24~', '\x1b[1;2P', '\x1b[15;5~', '\x1b[[A')


def pasted(text):
    """The bytes of a terminal that was asked to mark pastes."""
    return f'\x1b[200~{text}\x1b[201~'


class Screen:
    """The part of xterm that the program and libedit use. Rows that scroll off are kept; each letter takes one cell."""
    CONTROL = re.compile(r'\x1b\[([0-9;?]*)([A-Za-z@])|\x1b[()]B|\x1b[=>]')

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column = columns, [''], 0, 0

    def write(self, text):
        """Returns the end of the text if it is an incomplete control sequence."""
        while text:
            control = self.CONTROL.match(text)
            if control:
                text = text[control.end():]
                if control.group(2):
                    self.control(control.group(2), control.group(1))
            elif text[0] == '\x1b' and len(text) < 16:
                return text
            else:
                self.put(text[0])
                text = text[1:]
        return ''

    def put(self, letter):
        if letter == '\r':
            self.column = 0
        elif letter == '\b':
            self.column = max(0, min(self.column, self.columns - 1) - 1)
        elif letter == '\n':
            self.row += 1
        elif letter >= ' ':
            if self.column == self.columns:
                self.row, self.column = self.row + 1, 0
            self.grow()
            line = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = line[:self.column] + letter + line[self.column + 1:]
            self.column += 1
        self.grow()

    def grow(self):
        self.rows += [''] * (self.row + 1 - len(self.rows))

    def control(self, what, number):
        count = int(number) if number.isdigit() else 1
        line = self.rows[self.row]
        if what in 'AB':
            self.row = max(0, self.row + (count if what == 'B' else -count))
        elif what in 'CD':
            self.column = max(0, min(self.column + (count if what == 'C' else -count), self.columns - 1))
        elif what == 'G':
            self.column = count - 1
        elif what == 'P':
            self.rows[self.row] = line[:self.column] + line[self.column + count:]
        elif what == '@':
            self.rows[self.row] = line[:self.column].ljust(self.column) + ' ' * count + line[self.column:]
        elif what in 'KJ' and number in ('', '0'):
            self.rows[self.row] = line[:self.column]
            if what == 'J':
                del self.rows[self.row + 1:]
        elif what not in 'mhl':
            raise RuntimeError(f'the screen does not know the control {number}{what}')
        self.grow()


class Terminal:
    """A program whose terminal this is."""

    def __init__(self, *command, columns=60, environment=None):
        self.screen = Screen(columns)
        self.keyboard, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        self.process = subprocess.Popen(
            ending_with_us('setsid', '--ctty', *command), stdin=program, stdout=program, stderr=program,
            env={**CLEAN_ENVIRONMENT, 'TERM': 'xterm', **(environment or {})})
        self.program = program
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        rest = b''
        text = ''
        while True:
            try:
                data = os.read(self.keyboard, 4096)
            except OSError:
                return
            rest += data
            whole = rest.decode(errors='ignore')  # a character may be incomplete
            rest = rest[len(whole.encode()):]
            with self.lock:
                try:
                    text = self.screen.write(text + whole)
                except RuntimeError as error:  # reported to the waiting test
                    self.screen.rows.append(str(error))
                    return

    def shown(self):
        with self.lock:
            return [row.rstrip() for row in self.screen.rows]

    def type(self, keys):
        os.write(self.keyboard, keys.encode())

    def wait_for(self, wanted, seconds=ANSWER_SECONDS):
        """Until `wanted` finds something in the rows, which are returned."""
        def found():
            rows = self.shown()
            return any(re.search(wanted, row) for row in rows) and rows
        return eventually(found, lambda: f'{wanted!r} did not come; the screen shows\n' + '\n'.join(self.shown()), seconds)

    def wait_for_prompt(self):
        """Until the last row is an empty prompt. The rows."""
        def prompted():
            rows = self.shown()
            return (rows[-1] == '>' or self.process.poll() is not None) and rows
        rows = eventually(prompted, lambda: 'no prompt; the screen shows\n' + '\n'.join(self.shown()), ANSWER_SECONDS)
        if rows[-1] != '>':
            raise AssertionError('it ended; the screen shows\n' + '\n'.join(rows))
        return rows

    def is_cooked(self):
        """Letters are shown as they are typed, and lines edited by the terminal."""
        modes = termios.tcgetattr(self.program)[3]
        return bool(modes & termios.ECHO and modes & termios.ICANON)

    def wait(self):
        return self.process.wait(timeout=ANSWER_SECONDS)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.program)
        self.reader.join()
        os.close(self.keyboard)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
