"""An edge of one's own: starts `outrider-edge serve`, and ends it.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections import deque
from types import TracebackType
from typing import Deque, Optional, Type, TypeVar

from outrider.client import Client
from outrider.programs import find
from outrider.types import OutriderError

Self = TypeVar("Self", bound="Edge")
_LISTENING = re.compile(r"^\s*listening\s+(http\S+)$")
_KEPT_LINES = 50


class Edge:
    """flags: of `outrider-edge serve`, as "--server", "gpu-node:8001", "--model", "models/draft". It listens on a
    free port of this machine. patience: seconds in which it has to be ready; loading a large model takes long.

    Raises OutriderError with the program's own words where it ends before it is ready."""

    def __init__(self, *flags: str, patience: float = 900.0) -> None:
        self._lines: Deque[str] = deque(maxlen=_KEPT_LINES)
        self._ready = threading.Event()
        self._url = ""
        self._process = subprocess.Popen([find("edge"), "serve", "--port", "0", *map(str, flags)], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(patience) or not self._url:
            said = self.close()
            raise OutriderError(f"outrider-edge did not become ready: {said or 'it said nothing'}")
        self.client = Client(self._url)

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
        if hasattr(self, "client"):
            self.client.close()
        return "\n".join(self._lines).strip()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.append(line.rstrip())
                found = _LISTENING.match(line.rstrip())
                if found:
                    self._url = found[1]
                if line.strip() == "ready":
                    self._ready.set()
        self._ready.set()  # it has ended
