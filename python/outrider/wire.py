"""The HTTP form of requests and answers, without any I/O, so that the blocking and the asyncio client share it.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import json
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from outrider.types import (Answer, Done, Event, Figures, Link, Message, OutriderError, Refused, Slo, Text, ToolCall, Unverified)

Prompt = Union[str, Sequence[Message]]


def body_of(prompt: Prompt, *, stream: bool, model: Optional[str], slo: Optional[Slo], fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The body of a chat. fields: OpenAI's, as max_tokens, temperature, seed, stop, tools; they go as they are."""
    messages: List[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    body: Dict[str, Any] = {"messages": messages, **fields}
    if model is not None:
        body["model"] = model
    if slo is not None:
        objectives = {name: value for name, value in vars(slo).items() if name != "unverified" and value is not None}
        body["slo"] = {**objectives, **({"unverified": "allow"} if slo.unverified else {})}
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    return body


def refusal(status: int, body: bytes, headers: Mapping[str, str]) -> Refused:
    message, param, code = body.decode("utf-8", "replace").strip(), None, None
    try:
        error = json.loads(body)["error"]
        message, param, code = str(error["message"]), error.get("param"), error.get("code")
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # a proxy's own page
    try:
        retry_after: Optional[float] = float(headers["retry-after"])
    except (KeyError, ValueError):
        retry_after = None
    return Refused(status, message, param, code, retry_after)


def link_of(state: Mapping[str, Any]) -> Link:
    return Link(decides=str(state["decides"]), link=str(state["link"]), running=bool(state["running"]), waiting=int(state["waiting"]))


class Stream:
    """Reads the lines of one streamed answer. `began`: time.monotonic() of the request."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._first: Optional[float] = None
        self._text: List[str] = []
        self._reasoning: List[str] = []
        self._calls: Dict[int, ToolCall] = {}
        self._finish = ""
        self._model = ""
        self._usage: Mapping[str, Any] = {}
        self._outcome: Optional[str] = None
        self.is_over = False

    def put(self, line: str) -> List[Event]:
        """The events of one line of the stream. Raises OutriderError where the stream carries an error."""
        if not line.startswith("data:"):
            return []
        data = line[len("data:"):].strip()
        if data == "[DONE]":
            self.is_over = True
            return [Done(self._answer())]
        chunk = json.loads(data)
        if "error" in chunk:
            raise OutriderError(str(chunk["error"].get("message", chunk["error"])))
        return self._events(chunk)

    def _events(self, chunk: Mapping[str, Any]) -> List[Event]:
        events: List[Event] = []
        self._model = str(chunk.get("model", self._model))
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta") or {}
            self._reasoning.append(delta.get("reasoning_content") or "")
            for call in delta.get("tool_calls") or ():
                self._add_call(call)
            if delta.get("content"):
                self._first = self._first or time.monotonic()
                self._text.append(delta["content"])
                events.append(Text(delta["content"], self._count("completion_tokens"), self._drafted("accepted")))
            self._finish = choice.get("finish_reason") or self._finish
        unverified = chunk.get("unverified") or {}
        if "continuation" in unverified:
            events.append(Unverified(str(unverified["continuation"]), bool(unverified["whole"])))
        self._outcome = unverified.get("outcome", self._outcome)
        return events

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        index, function = int(delta.get("index", 0)), delta.get("function") or {}
        before = self._calls.get(index, ToolCall("", "", ""))
        self._calls[index] = ToolCall(delta.get("id") or before.id, function.get("name") or before.name,
                                      before.arguments + (function.get("arguments") or ""))

    def _count(self, name: str) -> int:
        return int(self._usage.get(name, 0))

    def _drafted(self, fate: str) -> int:
        return int((self._usage.get("completion_tokens_details") or {}).get(f"{fate}_prediction_tokens", 0))

    def _answer(self) -> Answer:
        now = time.monotonic()
        figures = Figures(
            prompt_tokens=self._count("prompt_tokens"),
            completion_tokens=self._count("completion_tokens"),
            cached_tokens=int((self._usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)),
            accepted_draft_tokens=self._drafted("accepted"),
            rejected_draft_tokens=self._drafted("rejected"),
            seconds=now - self._began,
            first_text_seconds=(self._first or now) - self._began)
        return Answer("".join(self._text), self._finish, figures, tuple(self._calls[index] for index in sorted(self._calls)),
                      "".join(self._reasoning), self._model, self._outcome)
