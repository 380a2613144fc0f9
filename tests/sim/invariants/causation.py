"""Checks that entries name their causes, and that causes lead from each entry of a case to its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faultbridge.model.causation import STARTS_CHAINS
from faultbridge.model.enums import Actor, EntryType
from faultbridge.model.recorded import read_event
from faultbridge.serve.pager.rules import rules_for
from tests.sim.invariants.view import Invariant, SystemView

Body = Mapping[str, Any]


def _all(view: SystemView) -> Iterator[Body]:
    for bodies in view.bodies.values():
        yield from bodies


def _by_id(view: SystemView) -> dict[str, Body]:
    return {body["metadata"]["event_id"]: body for body in _all(view)}


def _without_cause(view: SystemView) -> Iterator[str]:
    """Yield the entries that name no cause but need a cause.

    Entries of actors in `STARTS_CHAINS` need no cause. Entries about the repair budget need no cause either, because a
    policy with a lower limit can cause them, and no entry records a new policy. Notes about groups from which no report
    arrives need none: time alone causes them.
    """
    for body in _all(view):
        meta = body["metadata"]
        # An operator who lowers the limit of repairs an hour writes no entry; the budget may be used up by that alone.
        needs_none = body["data"].get("kind") in {"budget", "inventory"}
        if meta["causation_id"] is None and Actor(meta["recorded_by"]) not in STARTS_CHAINS and not needs_none:
            yield _text(body)


def _later_causes(view: SystemView) -> Iterator[str]:
    known = _by_id(view)
    for body in _all(view):
        meta, cause = body["metadata"], known.get(body["metadata"]["causation_id"])
        if cause is None or cause["metadata"]["stream"] != meta["stream"]:
            continue
        if cause["metadata"]["sequence"] >= meta["sequence"]:
            yield _text(body)


def _broken_case_chains(view: SystemView) -> Iterator[str]:
    """Yield the entries of a case from which no chain of causes leads back to the start of the case.

    Also yield the first entry of a case if it has no cause, or if its cause is a fault with another code than the case.
    """
    known = _by_id(view)
    for bodies in view.bodies.values():
        openings: dict[str, str] = {}
        for body in bodies:
            meta = body["metadata"]
            case = meta["case_id"]
            if case is None or meta["event_type"].startswith("Node Fault"):
                continue
            if case not in openings:
                if meta["event_type"] != EntryType.CASE_STATUS or body["data"]["from"] is not None:
                    continue
                openings[case] = meta["event_id"]
                if not _opens_with_its_fault(body, known):
                    yield f"{_text(body)} is not caused by the fault of the case"
            elif openings[case] not in _ancestors(body, bodies, known):
                pages = [rule.key(read_event(body)) for rule in rules_for(read_event(body))]
                yield f"{_text(body)} does not lead back to the start of the case {case} {pages}"


def _opens_with_its_fault(opening: Body, known: Mapping[str, Body]) -> bool:
    cause = known.get(opening["metadata"]["causation_id"])
    if cause is None:
        return False
    return not cause["metadata"]["event_type"].startswith("Node Fault") or (
        cause["data"]["code"] == opening["data"]["cause"]["code"]
    )


def _held_without_incident(view: SystemView) -> Iterator[str]:
    known = _by_id(view)
    for body in _all(view):
        if body["metadata"]["event_type"] != EntryType.CASE_STATUS or body["data"]["to"] != "absorbed":
            continue
        cause = known.get(body["metadata"]["causation_id"])
        if cause is None or cause["data"].get("incident_id") != body["data"]["incident_id"] or not _is_incident(cause):
            yield _text(body)


def _ancestors(body: Body, stream: Sequence[Body], known: Mapping[str, Body]) -> set[str]:
    """Return the event ids of an entry of a case, of its cause, of the cause of this cause, and so on.

    If a cause is an entry of an incident, the chain continues with the previous entry of the case that is no entry of a
    fault. If there is none, the chain continues with the cause of the incident.
    """
    found: set[str] = set()
    visited: set[str] = set()
    while (event := body["metadata"]["event_id"]) not in visited:
        visited.add(event)
        cause = known.get(body["metadata"]["causation_id"])
        if cause is None:
            break
        found.add(cause["metadata"]["event_id"])
        body = (_before(body, stream) if _is_incident(cause) else None) or cause
    return found | visited


def _before(body: Body, stream: Sequence[Body]) -> Body | None:
    case, event = body["metadata"]["case_id"], body["metadata"]["event_id"]
    later = iter(reversed(stream))
    if case is None or all(one["metadata"]["event_id"] != event for one in later):
        return None
    same = (one for one in later if one["metadata"]["case_id"] == case)
    return next((one for one in same if not one["metadata"]["event_type"].startswith("Node Fault")), None)


def _is_incident(body: Body) -> bool:
    return bool(body["metadata"]["event_type"] == EntryType.CLUSTER_INCIDENT)


def _text(body: Body) -> str:
    meta = body["metadata"]
    return f"{meta['stream']} {meta['sequence']} {meta['event_type']} by {meta['recorded_by']}"


INVARIANTS = (
    Invariant("every entry names its cause, unless an operator or the inventory starts a chain", _without_cause),
    Invariant("a cause precedes its effect", _later_causes),
    Invariant("the chain of a case leads from its first fault to its last page", _broken_case_chains),
    Invariant("a case that waits for an incident names its event as the cause", _held_without_incident),
)
