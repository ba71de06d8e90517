"""Clients of `outrider-edge serve` and of `outrider-server --http-port`, blocking and asyncio.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import time
from contextlib import contextmanager
from types import TracebackType
from typing import Any, AsyncIterator, Dict, Iterator, List, Optional, Type, TypeVar

import httpx

from outrider.types import Answer, ConnectionFailed, Done, Event, Link, Slo
from outrider.wire import Prompt, Stream, body_of, link_of, refusal

CHAT = "/v1/chat/completions"
Self = TypeVar("Self", bound="Client")
AsyncSelf = TypeVar("AsyncSelf", bound="AsyncClient")


def _options(url: str, key: Optional[str], ca: Optional[str], timeout: Optional[float]) -> Dict[str, Any]:
    # An answer may take as long as it takes; a program that is not there is told from a slow one by connecting.
    return {"base_url": url, "headers": {"Authorization": f"Bearer {key}"} if key else {}, "verify": ca or True,
            "timeout": httpx.Timeout(timeout, connect=10.0)}


@contextmanager
def _connection_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise ConnectionFailed(f"{url}: {error or type(error).__name__}. Remedy: see whether outrider-edge serve runs there") from error


class Client:
    """url: where the program answers, as http://127.0.0.1:8080. key: of a server's token file. ca: the file of the
    authority of its certificate. timeout: seconds between two pieces of an answer; None: for ever.

    Thread rule: any thread; answers of one edge come one after the other."""

    def __init__(self, url: str = "http://127.0.0.1:8080", *, key: Optional[str] = None, ca: Optional[str] = None,
                 timeout: Optional[float] = None) -> None:
        self.url = url
        self._http = httpx.Client(**_options(url, key, ca, timeout))

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def chat(self, prompt: Prompt, *, model: Optional[str] = None, slo: Optional[Slo] = None, **fields: Any) -> Answer:
        """The whole answer. fields: OpenAI's, as max_tokens, temperature, seed, stop, tools."""
        for event in self.stream(prompt, model=model, slo=slo, **fields):
            if isinstance(event, Done):
                return event.answer
        raise ConnectionFailed(f"{self.url}: the answer ended without its last event")

    def stream(self, prompt: Prompt, *, model: Optional[str] = None, slo: Optional[Slo] = None, **fields: Any) -> Iterator[Event]:
        """The answer's events as they come, Done last. Closing the iterator ends the answer."""
        body, stream = body_of(prompt, stream=True, model=model, slo=slo, fields=fields), Stream(time.monotonic())
        with _connection_errors(self.url), self._http.stream("POST", CHAT, json=body) as response:
            if response.status_code != 200:
                raise refusal(response.status_code, response.read(), response.headers)
            for line in response.iter_lines():
                yield from stream.put(line)
        if not stream.is_over:
            raise ConnectionFailed(f"{self.url}: the answer ended without its last event")

    def link(self) -> Link:
        return link_of(self._get("/link"))

    def links(self, every: float = 0.5) -> Iterator[Link]:
        """The state of the link, once now and again whenever it has changed; asks every so many seconds."""
        last: Optional[Link] = None
        while True:
            now = self.link()
            if last is None or (now.decides, now.link) != (last.decides, last.link):
                yield now
            last = now
            time.sleep(every)

    def models(self) -> List[str]:
        """The target first, then its levels."""
        return [str(model["id"]) for model in self._get("/v1/models")["data"]]

    def metrics(self) -> str:
        """The page for Prometheus."""
        with _connection_errors(self.url):
            response = self._http.get("/metrics")
        if response.status_code != 200:
            raise refusal(response.status_code, response.content, response.headers)
        return response.text

    def _get(self, path: str) -> Any:
        with _connection_errors(self.url):
            response = self._http.get(path)
        if response.status_code != 200:
            raise refusal(response.status_code, response.content, response.headers)
        return response.json()


class AsyncClient:
    """A Client under asyncio."""

    def __init__(self, url: str = "http://127.0.0.1:8080", *, key: Optional[str] = None, ca: Optional[str] = None,
                 timeout: Optional[float] = None) -> None:
        self.url = url
        self._http = httpx.AsyncClient(**_options(url, key, ca, timeout))

    async def __aenter__(self: AsyncSelf) -> AsyncSelf:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def chat(self, prompt: Prompt, *, model: Optional[str] = None, slo: Optional[Slo] = None, **fields: Any) -> Answer:
        async for event in self.stream(prompt, model=model, slo=slo, **fields):
            if isinstance(event, Done):
                return event.answer
        raise ConnectionFailed(f"{self.url}: the answer ended without its last event")

    async def stream(self, prompt: Prompt, *, model: Optional[str] = None, slo: Optional[Slo] = None, **fields: Any) -> AsyncIterator[Event]:
        body, stream = body_of(prompt, stream=True, model=model, slo=slo, fields=fields), Stream(time.monotonic())
        with _connection_errors(self.url):
            async with self._http.stream("POST", CHAT, json=body) as response:
                if response.status_code != 200:
                    raise refusal(response.status_code, await response.aread(), response.headers)
                async for line in response.aiter_lines():
                    for event in stream.put(line):
                        yield event
        if not stream.is_over:
            raise ConnectionFailed(f"{self.url}: the answer ended without its last event")

    async def link(self) -> Link:
        with _connection_errors(self.url):
            response = await self._http.get("/link")
        if response.status_code != 200:
            raise refusal(response.status_code, response.content, response.headers)
        return link_of(response.json())
