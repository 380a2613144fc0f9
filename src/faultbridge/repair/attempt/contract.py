"""What the state machine says to a step; version 1 of the contract between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from faultbridge.domain.cases import Case
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected

VERSION = 1
UNDERSTOOD = frozenset({VERSION})
"""Executions live for hours across deployments: the version before stays understood while one may run."""


def execution_input(key: NodeKey, case: Case) -> dict[str, Any]:
    """Return the whole input of the execution that drives the live attempt of a case."""
    return {"v": VERSION, "cluster": key.cluster, "node": key.node, "case": case.id, "attempt": case.attempts}


@dataclass(frozen=True, slots=True)
class Request:
    """One call of one step for one attempt; `error` is what the state machine caught, for the step that records it."""

    step: str
    key: NodeKey
    case: str
    attempt: int
    error: str = ""

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Request:
        """Read the payload of a call; raises Rejected for a version or shape that nobody understands."""
        if payload.get("v") not in UNDERSTOOD:
            raise Rejected("unknown_version", f"step contract {payload.get('v')!r} is not understood")
        try:
            key = NodeKey(str(payload["cluster"]), str(payload["node"]))
            case, attempt = str(payload["case"]), int(payload["attempt"])
            return cls(str(payload["step"]), key, case, attempt, _error(payload.get("error")))
        except (KeyError, TypeError, ValueError) as error:
            raise Rejected("bad_step", f"a step's payload lacks or mistakes {error}") from error


def _error(caught: Any) -> str:  # noqa: ANN401 - whatever the state machine caught
    if not isinstance(caught, Mapping):
        return str(caught or "")
    return f"{caught.get('Error', 'error')}: {caught.get('Cause', '')}"[:500]


class Outcome(StrEnum):
    """Where an attempt goes after a step.

    `done` goes on, `repair` with the instance that is there, `diagnose` without anything being done to it, `follow`
    with what the provider does to it, `gone` with a node that others emptied; `waiting` is answered later under the
    task token, `stopped` put the case back into the queue, `failed` handed it to a person, `superseded` means that
    somebody else has the case now.
    """

    DONE = "done"
    DIAGNOSE = "diagnose"
    REPAIR = "repair"
    FOLLOW = "follow"
    GONE = "gone"
    WAITING = "waiting"
    STOPPED = "stopped"
    FAILED = "failed"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one call of one step, with a line for people."""

    outcome: Outcome
    reason: str = ""

    def data(self, step: str) -> dict[str, str]:
        """Render the answer as the state machine and the console see it."""
        return {"step": step, "outcome": self.outcome.value, "reason": self.reason}


class Superseded(Exception):  # noqa: N818 - the word of the design
    """The attempt that called is not the live one any more."""


class Settled(Exception):  # noqa: N818 - a fact, no error
    """The step has its outcome already; whoever calls again gets the same."""

    def __init__(self, answer: Answer) -> None:
        """Keep the outcome."""
        super().__init__(answer.outcome.value)
        self.answer = answer
