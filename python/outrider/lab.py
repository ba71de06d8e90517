"""A strategy in Python beside Outrider's own and its rivals, on the same models, links and texts, in virtual time.

    from outrider import lab

    class Rising(lab.Strategy):
        length = 4

        def begin(self, answer: lab.Answer) -> lab.Plan:
            return lab.Plan(length=self.length)

        def verdict(self, verdict: lab.Verdict) -> lab.Plan:
            self.length += 1 if verdict.accepted == verdict.drafted else -1
            self.length = min(8, max(1, self.length))
            return lab.Plan(length=self.length)

    lab.serve(Rising)

`outrider-bench run --clock virtual --strategy all,rising="python3 rising.py"` runs it. Text on stdout is the plans'; what a
strategy prints goes to stderr. Its thinking takes no virtual time.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Optional, TextIO

__all__ = ["Answer", "Plan", "Strategy", "Verdict", "serve"]


@dataclass(frozen=True)
class Answer:
    """An answer begins. length: the draft length that the run asks for."""
    length: int


@dataclass(frozen=True)
class Verdict:
    """The target has decided."""
    tokens: List[int]       # what it decided; the last one is its own
    drafted: int            # tokens of ours, one below the other, that its pass verified
    accepted: int           # the number of these that became text
    now_ms: float           # virtual time
    draft_step_ms: float    # measured: a step of the draft, a pass of the target, there and back
    pass_ms: float
    round_trip_ms: float


@dataclass(frozen=True)
class Plan:
    """The work until the next verdict."""
    length: int = 4             # tokens drafted in a round, 0 to 64; 0: the target decodes alone
    least_chance: float = 0.0   # a round ends before the token with which its chance falls below this
    ahead: bool = False         # drafts while a verdict is awaited, instead of resting
    fan_out: int = 1            # next tokens considered at each position of what is drafted ahead, 1 to 8
    send: bool = False          # what was drafted ahead leaves before the verdict, not after it


class Strategy:
    """One is made for each answer. Without methods of its own it is plain speculative decoding."""

    def begin(self, answer: Answer) -> Plan:
        return Plan(length=answer.length)

    def verdict(self, verdict: Verdict) -> Optional[Plan]:
        """None: the plan stays."""
        return None


def serve(make: Callable[[], Strategy], lines: Optional[TextIO] = None, plans: Optional[TextIO] = None) -> None:
    """Answers outrider-bench until it ends. make: the class, or what makes a strategy."""
    lines, plans = lines or sys.stdin, plans or sys.stdout
    sys.stdout = sys.stderr  # a print() of the strategy is no plan
    strategy = make()
    for line in lines:
        fields: Dict[str, Any] = json.loads(line)
        event = fields.pop("event")
        if event == "answer":
            strategy = make()
            plan: Optional[Plan] = strategy.begin(Answer(**fields))
        else:
            plan = strategy.verdict(Verdict(**fields))
        plans.write(json.dumps(asdict(plan) if plan else {}) + "\n")
        plans.flush()
