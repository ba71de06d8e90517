"""Requests and answers as plain values. Units: seconds; tokens.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

# A message of a conversation, in OpenAI's form: role and content, tool calls and results.
Message = Mapping[str, Any]


class OutriderError(Exception):
    """Every error of this package."""


class ConnectionFailed(OutriderError):
    """No program answers at this address, or it ended in the middle of an answer."""


class Refused(OutriderError):
    """The program refuses the request. `param` names the field, where one is wrong."""

    def __init__(self, status: int, message: str, param: Optional[str] = None, code: Optional[str] = None,
                 retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after = retry_after


@dataclass(frozen=True)
class Slo:
    """The objectives of an answer. With `unverified` what the draft expects by `time_ms` is given then, and the target confirms
    or corrects it afterwards. Without, an elastic target answers with the level that keeps all objectives, but with none
    whose quality is below `min_quality`."""
    time_ms: Optional[float] = None   # the whole answer
    unverified: bool = False
    min_quality: Optional[float] = None
    ttft_ms: Optional[float] = None   # the first token
    tpot_ms: Optional[float] = None   # each later one
    energy_j: Optional[float] = None  # the whole answer, where the device's power is known (--power-file)


@dataclass(frozen=True)
class Figures:
    """The cost of an answer."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0            # of the prompt
    accepted_draft_tokens: int = 0    # of the answer: a draft had guessed them
    rejected_draft_tokens: int = 0
    seconds: float = 0.0              # from the request to the end
    first_text_seconds: float = 0.0   # to the first piece of text


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # JSON


@dataclass(frozen=True)
class Unverified:
    """An event: a deadline has come. `continuation` is what the draft expects after the verified text."""
    continuation: str
    whole: bool  # the answer would end there


@dataclass(frozen=True)
class Text:
    """An event: the answer goes on. The counts are of the whole answer so far."""
    text: str
    completion_tokens: int = 0
    accepted_draft_tokens: int = 0


@dataclass(frozen=True)
class Answer:
    text: str
    finish_reason: str  # stop, length, tool_calls
    figures: Figures = field(default_factory=Figures)
    tool_calls: Sequence[ToolCall] = ()
    reasoning: str = ""
    model: str = ""
    # With Slo.unverified: in_time (all was verified by then), confirmed or corrected.
    unverified_outcome: Optional[str] = None


@dataclass(frozen=True)
class Done:
    """The last event of an answer."""
    answer: Answer


Event = Union[Text, Unverified, Done]


@dataclass(frozen=True)
class Link:
    """The verifier that decides now, and the state of an edge's link to its server."""
    decides: str  # server or device
    link: str     # up, down or none
    running: bool
    waiting: int
