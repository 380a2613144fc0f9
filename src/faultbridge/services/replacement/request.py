"""What the state machine says to a step; version 1 of the contract between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
