"""Read the answers of slurmrestd, whose shape differs by version: documents, errors, nodes and jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from faultbridge.adapters.slurm.https_request import Answer
from faultbridge.adapters.slurm.operations import SlurmJob
from faultbridge.decoders.slurm.node_listing import SlurmNode, slurm_nodes
from faultbridge.domain.names import expand_host_list
from faultbridge.errors import FaultbridgeError, Misconfigured, Rejected, Transient

Document = Mapping[str, Any]

# Numbers of Slurm's errors; version 24.11 answers a look-up of an unknown node with the number 0.
NO_NUMBER, INVALID_NODE_NAME, NOT_AUTHENTICATED = 0, 2018, 1007
DENIED = frozenset({2002, 2010})
"""Access or permission denied, and invalid user id."""

UNAUTHENTICATED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.NETWORK_AUTHENTICATION_REQUIRED})
NOT_HOLDING = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PENDING", "PREEMPTED", "REVOKED", "TIMEOUT"}
)
"""The states of a job that uses no node, unless the job is also COMPLETING."""


def document_of(answer: Answer, action: str) -> Document:
    """Return the JSON object in a response; raises Transient if the body is not as documented.

    If slurmrestd did not accept the token, Misconfigured is raised instead. `action` describes the request. The error
    text starts with `action`.
    """
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("errors", []), list):
        if is_unauthenticated(answer):
            raise failure(answer, {}, action)
        raise Transient(f"{action}: slurmrestd answered with HTTP {answer.status}, and not as documented")
    return found


def error_numbers(document: Document) -> list[int]:
    """Return Slurm's number of each error in a document; 0 for an error without a number."""
    return [_number(error.get("error_number", error.get("errno"))) or NO_NUMBER for error in _errors(document)]


def checked(answer: Answer, action: str) -> Document:
    """Return the document of a response; for a failed response, raise the error that `failure` returns."""
    document = document_of(answer, action)
    if answer.status != HTTPStatus.OK or document.get("errors"):
        raise failure(answer, document, action)
    return document


def is_unauthenticated(answer: Answer) -> bool:
    """Return whether slurmrestd or Slurm does not accept the token."""
    if answer.status in UNAUTHENTICATED:
        return True
    if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return False
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and NOT_AUTHENTICATED in error_numbers(found)


def failure(answer: Answer, document: Document, action: str) -> FaultbridgeError:
    """Return the error for a failed response of slurmrestd.

    The error is Misconfigured if the token is not valid or the permission is missing, else Transient.
    """
    if is_unauthenticated(answer):
        return Misconfigured(f"{action}: slurmrestd does not accept the token; renew it in the secret of SlurmTokens")
    texts = [f"{error.get('description') or ''}: {error.get('error') or ''}".strip(": ") for error in _errors(document)]
    text = f"{action}: {'; '.join(texts)[:300] or f'HTTP {answer.status}'}"
    refused = answer.status == HTTPStatus.FORBIDDEN or not DENIED.isdisjoint(error_numbers(document))
    return Misconfigured(text) if refused else Transient(text)


def nodes_of(document: Document, answer: Answer) -> dict[str, SlurmNode]:
    """Return the nodes in a response, by name; raises Transient if a node cannot be read."""
    rows = document.get("nodes")
    found = {one.name: one for one in slurm_nodes(answer.body.decode(errors="replace"))}
    names = [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else [None]
    if not isinstance(rows, list) or len(names) != len(rows) or sorted(map(str, names)) != sorted(found):
        raise Transient("slurmrestd answered with a list of nodes that cannot be read")
    return found


def jobs_on(document: Document, node: str) -> Iterator[SlurmJob]:
    """Yield the jobs that use resources of a node; raises Transient if a job cannot be read."""
    rows = document.get("jobs")
    if not isinstance(rows, list):
        raise Transient("slurmrestd answered without a list of jobs")
    for row in rows:
        states = _states(row.get("job_state")) if isinstance(row, dict) else []
        if not states or not isinstance(row.get("nodes", ""), str | None):
            raise Transient("slurmrestd answered with a job that cannot be read")
        if ("COMPLETING" in states or NOT_HOLDING.isdisjoint(states)) and node in _hosts(row.get("nodes")):
            yield SlurmJob(_job_id(row), "+".join(states))


def _errors(document: Document) -> list[Document]:
    return [error for error in document.get("errors") or [] if isinstance(error, dict)]


def _states(value: object) -> list[str]:
    """Return the states of a job, in upper case; empty if a state cannot be read.

    The API gives one text before version v0.0.40, and a list since then.
    """
    values = value if isinstance(value, list) else [value]
    texts = [item.upper() for item in values if isinstance(item, str) and item]
    return texts if len(texts) == len(values) else []


def _hosts(text: str | None) -> tuple[str, ...]:
    try:
        return expand_host_list(text) if text else ()
    except Rejected as error:
        raise Transient(f"slurmrestd answered with a job on nodes that cannot be read: {error}") from error


def _job_id(row: Document) -> str:
    array, task = _number(row.get("array_job_id")), _number(row.get("array_task_id"))
    return f"{array}_{task}" if array and task is not None else str(_number(row.get("job_id")))


def _number(value: object) -> int | None:
    """Return a number from a document, or None if it is not set.

    Since version v0.0.39, a number is an object with `set` and `number`.
    """
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
