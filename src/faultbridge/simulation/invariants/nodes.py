"""Nodes: legal moves only, in service only when proven, and mirrored truly wherever others look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from faultbridge.domain.edges import NODE_EDGES, Actor, NodeStatus, allowed
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View
from faultbridge.storage import items, keys

STATUS = "Node Status Change"
IN_SERVICE = frozenset({NodeStatus.HEALTHY.value, NodeStatus.DEGRADED.value})
_UNREMARKABLE = frozenset({NodeStatus.HEALTHY, NodeStatus.RETIRED})


def moves(entries: list[dict[str, Any]], kind: str) -> Iterator[tuple[str | None, str, str, int]]:
    """Yield from, to, actor and sequence of each move that a stream tells."""
    for body in entries:
        if body["metadata"]["event_type"] == kind:
            meta = body["metadata"]
            yield body["data"]["from"], body["data"]["to"], meta["recorded_by"], meta["sequence"]


def _illegal(view: View) -> Iterator[str]:
    for state in view.nodes:
        at = None
        for source, target, actor, sequence in moves(view.entries_of(state), STATUS):
            if source != at or not allowed(NODE_EDGES, source, target, Actor(actor)):
                yield f"{state.key.stream} {sequence}: {at} | {source} -> {target} by {actor}"
            at = target
        if state.status is not None and at != state.status:
            yield f"{state.key.stream} is {state.status}, its last entry says {at}"


def _unproven(view: View) -> Iterator[str]:
    """Find moves into service from outside that no passed verification of the same attempt stands before."""
    for state in view.nodes:
        passed: set[tuple[str, int]] = set()
        for body in view.entries_of(state):
            meta, data = body["metadata"], body["data"]
            if data.get("step") == "verify" and data["outcome"] == "passed":
                passed.add((meta["case_id"], data["attempt"]))
            if meta["event_type"] != STATUS or data["to"] not in IN_SERVICE or data["from"] in {None, *IN_SERVICE}:
                continue
            if data["from"] != NodeStatus.VALIDATING or not any(case == meta["case_id"] for case, _ in passed):
                yield f"{state.key.stream} {meta['sequence']}: {data['from']} -> {data['to']}"
            passed.clear()


def _idle_validation(view: View) -> Iterator[str]:
    for state in view.nodes:
        if state.status is NodeStatus.VALIDATING and state.live_case is None:
            yield state.key.stream


def _shared_instances(view: View) -> Iterator[str]:
    seated = Counter(state.incarnation.instance_id for state in view.nodes if state.incarnation)
    yield from (f"{instance} sits {number} times" for instance, number in seated.items() if instance and number > 1)


def _lost_names(view: View) -> Iterator[str]:
    for state in view.nodes:
        sitting = state.incarnation.instance_id if state.incarnation else None
        found = view.at(*keys.alias("instance", sitting)) if sitting else None
        if sitting and (found is None or items.read_alias(found).key != state.key or items.read_alias(found).valid_to):
            yield f"{sitting} does not lead to {state.key.stream}"


def _bad_rows(view: View) -> Iterator[str]:
    wanted = {(state.key.cluster, state.key.node): _bad(state) for state in view.nodes if _bad(state)}
    found = {
        (str(item["pk"]).split("#")[1], str(item["node"])): (item["status"], item["severity"], item["case"])
        for item in view.items
        if str(item["sk"]).startswith("BAD#")
    }
    for place in sorted(wanted.keys() | found.keys()):
        if wanted.get(place) != found.get(place):
            yield f"{place}: the row says {found.get(place)}, the node {wanted.get(place)}"


def _bad(state: NodeState) -> tuple[Any, ...] | None:
    if state.status is None or state.status in _UNREMARKABLE:
        return None
    case = state.live_case
    return state.status.value, state.severity.value if state.severity else None, case.id if case else None


def _cordons(view: View) -> Iterator[str]:
    for state in view.nodes:
        cordoned = state.key.node in view.ports.orchestrator.cordoned
        if cordoned and state.status is not None and state.status.in_service and state.isolation is Isolation.NONE:
            yield f"{state.key.stream} is {state.status} and cordoned"
        if not cordoned and state.isolation is Isolation.CONFIRMED:
            yield f"{state.key.stream} is isolated and not cordoned"
        # Out of service it may stand: a machine that is proven dead goes on without its orchestrator.
        if state.isolation is Isolation.REQUESTED and state.status is not None and state.status.in_service:
            yield f"{state.key.stream}: the isolation is still requested"


def _dead_machines(view: View) -> Iterator[str]:
    for state in view.nodes:
        sitting = state.incarnation.instance_id if state.incarnation else None
        if sitting and state.status and state.status.in_service and not view.ports.fleet.instances[sitting].alive:
            yield f"{state.key.stream} is {state.status}, its machine {sitting} is gone"


def _due(view: View) -> Iterator[str]:
    now = view.ports.clock.now()
    for state in view.nodes:
        if state.due_at is not None and state.due_at <= now:
            yield f"{state.key.stream} since {state.due_at}"


INVARIANTS = (
    Invariant("a node moves along legal edges only, and is what its last entry says", _illegal),
    Invariant("a node comes into service only verified", _unproven),
    Invariant("a node under verification has a case", _idle_validation),
    Invariant("an instance serves one node", _shared_instances),
    Invariant("the instance in a node leads to it", _lost_names),
    Invariant("the rows of troubled nodes are what the nodes are", _bad_rows),
    Invariant("work is kept off the nodes that are isolated, and off no other", _cordons),
    Invariant("a node in service has a machine", _dead_machines),
    Invariant("no timer of the past is left", _due),
)
