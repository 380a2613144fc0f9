"""Reads the JSON bodies of requests that contain an operator's order."""

from __future__ import annotations

from faultbridge.api.requests import MAX_LENGTH, Request
from faultbridge.dataclass import dataclass
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.findings import Mark
from faultbridge.errors import Rejected

MAX_ATTEMPT = 9999


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an approval or a denial: which approval request it answers, and the reason.

    `attempt` and `repair_action` identify the approval request.
    """

    attempt: int
    repair_action: RepairAction
    reason: str


def read_answer(request: Request) -> Answer:
    """Read the answer to an approval request; an invalid body raises `Rejected` (`bad_body`)."""
    reason, body = read_reason(request, "attempt", "repair_action"), request.json_body()
    attempt, action = body.get("attempt"), body.get("repair_action")
    if type(attempt) is not int or not 1 <= attempt <= MAX_ATTEMPT:
        raise Rejected("bad_body", f"invalid `attempt`; allowed: 1 to {MAX_ATTEMPT}")
    if action not in list(RepairAction):
        raise Rejected("bad_body", f"invalid `repair_action`; allowed: {', '.join(RepairAction)}")
    return Answer(attempt, RepairAction(action), reason)


@dataclass(frozen=True, slots=True)
class MarkedFinding:
    """An operator's mark on a finding (`right` or `wrong`), and the reason for the mark."""

    mark: Mark
    reason: str


def read_mark(request: Request) -> MarkedFinding:
    """Read the mark on a finding; an invalid body raises `Rejected` (`bad_body`)."""
    reason, mark = read_reason(request, "mark"), request.json_body().get("mark")
    if mark not in list(Mark):
        raise Rejected("bad_body", f"invalid `mark`; allowed: {', '.join(Mark)}")
    return MarkedFinding(Mark(mark), reason)


def read_reason(request: Request, *required: str) -> str:
    """Return the `reason` of a request body, or "" if the body has none.

    `required` names the other allowed fields. This function does not check that the body has them. An invalid reason,
    or a field with any other name, raises `Rejected` (`bad_body`).
    """
    body = request.json_body()
    reason = body.get("reason", "")
    is_text = isinstance(reason, str) and len(reason) <= MAX_LENGTH and reason.isprintable()
    if not is_text or set(body) - {*required, "reason"}:
        fields = "".join(f"`{name}` and " for name in required)
        raise Rejected("bad_body", f"invalid body; allowed: {fields}an optional `reason` of {MAX_LENGTH} characters")
    return str(reason)
