"""Checks that required pages are sent, no other pages are sent, and triggered pages are resolved."""

from __future__ import annotations

import json
from collections.abc import Iterator

from faultbridge.model.enums import NodeStatus
from faultbridge.model.storage import keys
from tests.sim.invariants.arithmetic import RESOLVED, TRIGGERED, pages_of
from tests.sim.invariants.view import Invariant, SystemView

SUMMARY = ":summary:"


def _expected(view: SystemView) -> dict[str, str]:
    last: dict[str, tuple[int, str]] = {}
    for entries in view.bodies.values():
        for body in entries:
            for key, state in pages_of(body):
                last[key] = max(last.get(key, (0, "")), (body["metadata"]["sequence"], state))
    return {key: state for key, (_, state) in last.items()}


def _sent(view: SystemView) -> set[tuple[str, str]]:
    return {(page.key, page.attributes["state"]) for page in view.ports.pager.sent}


def _summarized(view: SystemView) -> set[str]:
    bodies = (page.bodies["sqs"] for page in view.ports.pager.sent if SUMMARY in page.key)
    return {member["key"] for body in bodies for member in json.loads(body)["members"]}


def _missing(view: SystemView) -> Iterator[str]:
    """Yield required pages that were not sent.

    If a page was never triggered, no resolve is required: its cause may have ended before the page was due.
    """
    sent, summarized = _sent(view), _summarized(view)
    for key, state in _expected(view).items():
        if (key, state) in sent or (state == TRIGGERED and key in summarized):
            continue
        if state == TRIGGERED or (key, TRIGGERED) in sent:
            yield f"{key} {state}"


def _unexpected(view: SystemView) -> Iterator[str]:
    expected = _expected(view)
    yield from sorted({page.key for page in view.ports.pager.sent if SUMMARY not in page.key} - expected.keys())


def _resolved_only(view: SystemView) -> Iterator[str]:
    """Yield pages that were resolved but never triggered.

    A page is left out if a call to trigger it was attempted or interrupted, because this call may have sent the page.
    """
    attempted = {(page.key, page.attributes["state"]) for page in view.ports.pager.attempted}
    resolved = sorted(key for key, state in _sent(view) if state == RESOLVED and (key, TRIGGERED) not in attempted)
    yield from (key for key in resolved if not _was_interrupted(view, key))


def _was_interrupted(view: SystemView, key: str) -> bool:
    """Return whether the notification log ever recorded that the page `key` was possibly sent.

    Every version of the log's table item is read, because a later page with the same key overwrites the item.
    """
    owner, _, transition = key.rpartition(":")
    mark = keys.page_notification(owner, transition)
    changes = (record.new for record in view.ports.table.stream if record.key == mark and record.new is not None)
    return any(change["possibly_sent"] for change in changes)


def _unpaged_escalations(view: SystemView) -> Iterator[str]:
    paged = {page.key for page in view.ports.pager.sent} | _summarized(view)
    for state in view.nodes:
        case = state.live_case
        escalated = case is not None and case.status == "escalated"
        if escalated and case is not None and not {f"{case.id}:escalated", f"{case.id}:stopped"} & paged:
            yield f"{state.key.stream} {case.id}"
        elif state.status is NodeStatus.FAILED and not escalated:
            yield f"{state.key.stream} failed without an escalated case"


INVARIANTS = (
    Invariant("every due page is sent, with its last state", _missing),
    Invariant("no page is sent that no entry requires", _unexpected),
    Invariant("no resolve is sent for a page that was never triggered", _resolved_only),
    Invariant("every escalated case and every failed node has paged an operator", _unpaged_escalations),
)
