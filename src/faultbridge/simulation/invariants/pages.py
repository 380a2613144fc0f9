"""Pages: each that is due, at least once, no other, and every key that was triggered resolved or still live."""

from __future__ import annotations

import json
from collections.abc import Iterator

from faultbridge.domain.edges import NodeStatus
from faultbridge.pager.rules import rules_for
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View
from faultbridge.storage import keys

TRIGGERED, RESOLVED = "triggered", "resolved"
SUMMARY = ":summary:"


def _expected(view: View) -> dict[str, str]:
    """Find the keys of all pages that the record asks for, and what each must have said last."""
    last: dict[str, tuple[int, str]] = {}
    for entries in view.bodies.values():
        for body in entries:
            for rule in rules_for(body):
                place = body["metadata"]["sequence"]
                last[rule.key(body)] = max(last.get(rule.key(body), (0, "")), (place, rule.state.value))
    return {key: state for key, (_, state) in last.items()}


def _said(view: View) -> set[tuple[str, str]]:
    return {(page.key, page.attributes["state"]) for page in view.ports.pager.sent}


def _summarised(view: View) -> set[str]:
    """Find the keys that summaries spoke for."""
    bodies = (page.bodies["sqs"] for page in view.ports.pager.sent if SUMMARY in page.key)
    return {member["key"] for body in bodies for member in json.loads(body)["members"]}


def _missing(view: View) -> Iterator[str]:
    """Find what is owed; a trouble that was over before its page was out is told to nobody."""
    said, summarized = _said(view), _summarised(view)
    for key, state in _expected(view).items():
        if (key, state) in said or (state == TRIGGERED and key in summarized):
            continue
        if state == TRIGGERED or (key, TRIGGERED) in said:
            yield f"{key} {state}"


def _surplus(view: View) -> Iterator[str]:
    asked = _expected(view)
    yield from sorted({page.key for page in view.ports.pager.sent if SUMMARY not in page.key} - asked.keys())


def _unannounced(view: View) -> Iterator[str]:
    """Find ends without a beginning; one that was tried or cut short may have reached somebody, and is ended."""
    tried = {(page.key, page.attributes["state"]) for page in view.ports.pager.tried}
    ended = sorted(key for key, state in _said(view) if state == RESOLVED and (key, TRIGGERED) not in tried)
    yield from (key for key in ended if not _cut_short(view, key))


def _cut_short(view: View, key: str) -> bool:
    owner, _, transition = key.rpartition(":")
    mark = view.at(*keys.page_mark(owner, transition))
    return mark is not None and bool(mark["maybe_told"])


def _escalations(view: View) -> Iterator[str]:
    told = {page.key for page in view.ports.pager.sent} | _summarised(view)
    for state in view.nodes:
        case = state.live_case
        waits = case is not None and case.status == "escalated"
        if waits and case is not None and f"{case.id}:escalated" not in told:
            yield f"{state.key.stream} {case.id}"
        elif state.status is NodeStatus.FAILED and not waits:
            yield f"{state.key.stream} failed and nobody has its case"


INVARIANTS = (
    Invariant("every page that is due was sent, its last word too", _missing),
    Invariant("no page is sent that nothing asks for", _surplus),
    Invariant("no end is told of what nobody tried to tell", _unannounced),
    Invariant("a case that waits for a person, or whose node failed, has paged one", _escalations),
)
