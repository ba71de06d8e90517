"""An edge of one's own: starts `outrider-edge serve`, and ends it.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from types import TracebackType
from typing import Deque, List, Optional, Type, TypeVar

from outrider.client import Client
from outrider.programs import cannot_start, find
from outrider.types import OutriderError

Self = TypeVar("Self", bound="Edge")
_LISTENING = re.compile(r"^\s*listening\s+(http\S+)$")
_NOT_READY = re.compile(r"\bnot ready reason=\"(.*)\"$")
_KEPT_LINES = 50
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """In the new process: it does not outlive a program that is killed. The kernel looks at the thread that starts it."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Edge:
    """flags: of `outrider-edge serve`, as "--server", "gpu-node:8001", "--model", "models/draft". It listens on a
    free port of this machine. patience: seconds in which it has to be ready; loading a large model takes long. None:
    nobody waits, and wait_until_ready() says when it is.

    Raises OutriderError with the program's own words where it ends before it is ready."""

    def __init__(self, *flags: str, patience: Optional[float] = 900.0) -> None:
        self._lines: Deque[str] = deque(maxlen=_KEPT_LINES)
        self._ready = threading.Event()
        self._url = self._waits_for = ""
        self._client: Optional[Client] = None
        command = [find("edge"), "serve", "--port", "0", *map(str, flags)]
        started: "Future[subprocess.Popen[str]]" = Future()
        self._reader = threading.Thread(target=self._run, args=(command, started), daemon=True)
        self._reader.start()
        try:
            self._process = started.result()
        except OSError as error:
            raise OutriderError(cannot_start(command[0], error.strerror)) from error
        if patience is not None and not self.wait_until_ready(patience):
            said = self.close()
            raise OutriderError(f"outrider-edge did not become ready: {said or 'it said nothing'}")

    def wait_until_ready(self, seconds: float) -> bool:
        """False: it is not yet. Raises OutriderError where it has ended."""
        if not self._ready.wait(seconds):
            return False
        if self.poll() is not None or not self._url:
            said = self.close()
            raise OutriderError(f"outrider-edge did not become ready: {said or 'it said nothing'}")
        return True

    @property
    def waits_for(self) -> str:
        """Why it is not ready yet, in its own words; empty: it still loads, or it is ready."""
        return "" if self._ready.is_set() else self._waits_for

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(self._url)
        return self._client

    @property
    def url(self) -> str:
        return self._url

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> Optional[int]:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def close(self) -> str:
        """Ends it, after the answers that run. Returns its last lines."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._client is not None:
            self._client.close()
        return "\n".join(self._lines).strip()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def _run(self, command: List[str], started: "Future[subprocess.Popen[str]]") -> None:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       encoding="utf-8", errors="replace", preexec_fn=_end_with_parent)
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._read(line.rstrip())
        process.wait()
        self._ready.set()  # it has ended

    def _read(self, line: str) -> None:
        self._lines.append(line)
        if found := _LISTENING.match(line):
            self._url = found[1]
        if found := _NOT_READY.search(line):
            self._waits_for = found[1].replace('\\"', '"')
        if line.strip() == "ready":
            self._ready.set()
