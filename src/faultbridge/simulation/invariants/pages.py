"""Pages: each that is due, at least once, and no other."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.services.pager.rules import rules_for
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View


def _expected(view: View) -> dict[str, str]:
    """Find the keys of all pages that the record asks for, and what each must have said last."""
    last: dict[str, tuple[int, str]] = {}
    for entries in view.bodies.values():
        for body in entries:
            for rule in rules_for(body):
                place = body["metadata"]["sequence"]
                last[rule.key(body)] = max(last.get(rule.key(body), (0, "")), (place, rule.state.value))
    return {key: state for key, (_, state) in last.items()}


def _missing(view: View) -> Iterator[str]:
    said = {(page.key, page.attributes["state"]) for page in view.ports.pager.sent}
    yield from (f"{key} {state}" for key, state in _expected(view).items() if (key, state) not in said)


def _surplus(view: View) -> Iterator[str]:
    yield from sorted({page.key for page in view.ports.pager.sent} - _expected(view).keys())


def _escalations(view: View) -> Iterator[str]:
    keys = {page.key for page in view.ports.pager.sent}
    for state in view.nodes:
        case = state.live_case
        if case is not None and case.status == "escalated" and f"{case.id}:escalated" not in keys:
            yield f"{state.key.stream} {case.id}"


INVARIANTS = (
    Invariant("every page that is due was sent, its last word too", _missing),
    Invariant("no page is sent that nothing asks for", _surplus),
    Invariant("a case that waits for a person has paged one", _escalations),
)
