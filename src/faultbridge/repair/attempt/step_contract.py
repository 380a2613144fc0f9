"""The contract between the state machine and its steps, version 1: request, result and outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from faultbridge.model.cases import Case
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeKey

VERSION = 1
SUPPORTED_VERSIONS = frozenset({VERSION})
"""Executions run for hours and survive deployments: support the previous version while one may still run."""

MAX_ERROR_LENGTH = 500


def execution_input(key: NodeKey, case: Case) -> dict[str, Any]:
    """Return the input of the Step Functions execution for the current attempt of a case."""
    return {"v": VERSION, "cluster": key.cluster, "node": key.node, "case": case.id, "attempt": case.attempts}


class StepRequest(Struct, frozen=True):
    """One call of one step for one attempt; `error` is what the state machine or the runner caught."""

    step: str
    key: NodeKey
    case: str
    attempt: int
    error: str = ""

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> StepRequest:
        """Parse the payload of a call. Raises Rejected for an unsupported version or a malformed payload."""
        if payload.get("v") not in SUPPORTED_VERSIONS:
            supported = ", ".join(str(version) for version in sorted(SUPPORTED_VERSIONS))
            raise Rejected(
                "unknown_version",
                f"unsupported version of the step contract: {payload.get('v')!r}; supported: {supported}",
            )
        try:
            key = NodeKey(str(payload["cluster"]), str(payload["node"]))
            case, attempt = str(payload["case"]), int(payload["attempt"])
            return cls(str(payload["step"]), key, case, attempt, _error_text(payload.get("error")))
        except (KeyError, TypeError, ValueError) as error:
            raise Rejected("bad_step", f"missing or invalid field in the step payload: {error}") from error


def _error_text(caught: Any) -> str:  # noqa: ANN401 - whatever the state machine caught
    if not isinstance(caught, Mapping):
        return str(caught or "")
    return f"{caught.get('Error', 'error')}: {caught.get('Cause', '')}"[:MAX_ERROR_LENGTH]


class StepOutcome(StrEnum):
    """The outcome of a step, by which the state machine selects its next state.

    - `done`: continue with the next state.
    - `repair`: reset or reboot the instance instead of replacing it.
    - `diagnose`: verify the instance without a repair.
    - `follow`: wait for the provider's own repair.
    - `gone`: another controller terminated the instance; wait for its successor.
    - `waiting`: there is no result yet; the result is sent later to the execution, by its task token.
    - `stopped`: the case is queued again.
    - `failed`: the case is escalated to an operator.
    - `superseded`: the attempt of this call has ended or was replaced by a newer attempt.
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


class StepResult(Struct, frozen=True):
    """The result of one call of one step, with a reason in plain text."""

    outcome: StepOutcome
    reason: str = ""

    def data(self, step: str) -> dict[str, str]:
        """Return the result of the step `step` in the form that the state machine reads."""
        return {"step": step, "outcome": self.outcome.value, "reason": self.reason}


def waiting(reason: str) -> StepResult:
    """Return the result of a step that has no outcome yet and is probed again later."""
    return StepResult(StepOutcome.WAITING, reason)


class AttemptSuperseded(Exception):  # noqa: N818 - an expected situation, not an error
    """Raised if the attempt of a call has ended or was replaced by a newer attempt."""


class StepAlreadyFinished(Exception):  # noqa: N818 - an expected situation, not an error
    """Raised if a step already has its outcome; a repeated call returns this outcome."""

    def __init__(self, result: StepResult) -> None:
        """Store the recorded result of the step."""
        super().__init__(result.outcome.value)
        self.result = result
