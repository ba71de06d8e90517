"""Stops one thread of a process, like a device that never answers, while the others continue. It works as a debugger:
the process must be a child of this one, or this one must be root.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import os
import platform
import time
from pathlib import Path

# <sys/ptrace.h>, <sys/wait.h>
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_FOR_ANY_THREAD = 0x40000000
CLOCK_NANOSLEEP = {'x86_64': '230', 'aarch64': '115'}  # <asm/unistd.h>


def sleeping_thread(process):
    """The computing thread: a pass of an emulated pace ends in a sleep. None: it is awake, or has no work."""
    for task in Path(f'/proc/{process}/task').iterdir():
        with contextlib.suppress(OSError):  # it may have ended
            if (task / 'syscall').read_text(encoding='ascii').split()[0] == CLOCK_NANOSLEEP[platform.machine()]:
                return int(task.name)
    return None


class StuckThread:
    """Stops a thread within the block; the thread that entered the block must leave it."""

    def __init__(self, thread):
        self.thread = thread

    def __enter__(self):
        self._trace(PTRACE_SEIZE)
        self._trace(PTRACE_INTERRUPT)
        os.waitpid(self.thread, WAIT_FOR_ANY_THREAD)  # it stands
        return self

    def ends_within(self, seconds):
        """Whether its process ended the thread. A process exists until its last thread was waited for."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            thread, status = os.waitpid(self.thread, WAIT_FOR_ANY_THREAD | os.WNOHANG)
            if thread and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
                return True
            time.sleep(0.01)
        return False

    def __exit__(self, *_):
        with contextlib.suppress(OSError):  # it may have ended
            self._trace(PTRACE_DETACH)

    def _trace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        if libc.ptrace(request, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), 'ptrace')
