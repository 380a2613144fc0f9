"""Converts errors to problem documents (RFC 9457) with an HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct

from faultbridge.model.errors import FaultbridgeError, Rejected, Transient, UnknownName
from faultbridge.model.log import log_cause

MEDIA_TYPE = "application/problem+json"
BAD_REQUEST = HTTPStatus.BAD_REQUEST

_STATUS: Mapping[str, HTTPStatus] = {
    "unauthorised": HTTPStatus.UNAUTHORIZED,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "forbidden": HTTPStatus.FORBIDDEN,
    "unknown_route": HTTPStatus.NOT_FOUND,
    "not_asked": HTTPStatus.CONFLICT,
    "too_late": HTTPStatus.CONFLICT,
    "case_over": HTTPStatus.CONFLICT,
    "answered": HTTPStatus.CONFLICT,
    "incident_over": HTTPStatus.CONFLICT,
    "job_runs": HTTPStatus.CONFLICT,
    "job_ended": HTTPStatus.CONFLICT,
    "past_intent": HTTPStatus.CONFLICT,
    "not_cancellable": HTTPStatus.CONFLICT,
    "not_replaceable": HTTPStatus.CONFLICT,
    "instance_changed": HTTPStatus.CONFLICT,
    "not_quarantinable": HTTPStatus.CONFLICT,
    "excluded": HTTPStatus.CONFLICT,
    "in_progress": HTTPStatus.CONFLICT,
    "not_with_a_person": HTTPStatus.CONFLICT,
    "not_acting": HTTPStatus.CONFLICT,
    "not_yours": HTTPStatus.CONFLICT,
    "silence_over": HTTPStatus.CONFLICT,
    "too_many": HTTPStatus.CONFLICT,
    "key_reused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "too_long": HTTPStatus.UNPROCESSABLE_ENTITY,
}


class Problem(Struct, frozen=True, kw_only=True):
    """The reason why a request failed, as a problem document (RFC 9457)."""

    type: Annotated[str, Meta(description="`urn:faultbridge:` and a stable identifier.")]
    title: str
    status: int
    detail: str


def status_of(error: FaultbridgeError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    if isinstance(error, UnknownName):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, Rejected):
        return _STATUS.get(error.reason, BAD_REQUEST)
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, Transient) else HTTPStatus.INTERNAL_SERVER_ERROR


def problem_of(error: FaultbridgeError) -> tuple[HTTPStatus, Problem]:
    """Return the HTTP status and the problem document of an error, without internal details.

    `Rejected` means that the request was refused. The document then contains the detail of the error, and the error is
    logged. For any other error, the detail is empty, and this function logs nothing.
    """
    status = status_of(error)
    if isinstance(error, Rejected):
        log_cause("request refused", reason=error.reason, status=status.value)
        return status, problem(status, error.reason, error.detail)
    reason = "try_again" if isinstance(error, Transient) else "internal"
    return status, problem(status, reason, "")


def problem(status: HTTPStatus, reason: str, detail: str) -> Problem:
    """Return a problem document; `reason` is a stable identifier of the kind of problem."""
    return Problem(type=f"urn:faultbridge:{reason}", title=status.phrase, status=status.value, detail=detail[:300])
