"""The legal transitions of nodes and cases, as data; `ledger.append` refuses every other transition.

That check, the tests and the diagrams in docs/state-machine.md all read the tables `NODE_EDGES` and `CASE_EDGES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from faultbridge.model.enums import Actor, CaseStatus


class Edge(NamedTuple):
    """One legal transition of a node or case. `on` is the cause of the transition, as text.

    `source` is None for the transition to the first status.
    """

    source: str | None
    target: str
    actors: frozenset[Actor]
    on: str


_A = Actor
_NODE_ROWS = (
    (None, "provisioning", (_A.INVENTORY, _A.CLI), "node registered without an instance"),
    (None, "validating", (_A.INVENTORY, _A.CLI), "node registered with a new instance"),
    (None, "healthy", (_A.CLI, _A.INVENTORY), "node imported while in service, not verified"),
    ("provisioning", "validating", (_A.STEP, _A.INVENTORY), "new instance attached, generation raised"),
    ("provisioning", "replacing", (_A.STEP,), "launch failed, attempts left"),
    ("provisioning", "failed", (_A.STEP, _A.SWEEP), "deadline passed, or no attempts left"),
    ("validating", "healthy", (_A.STEP, _A.CLOSE), "verification passed, no active condition"),
    ("validating", "degraded", (_A.STEP, _A.CLOSE), "verification passed, a warning is still active"),
    ("validating", "repairing", (_A.STEP,), "verification failed, attempts left"),
    ("validating", "replacing", (_A.STEP,), "verification failed, attempts left"),
    ("validating", "quarantined", (_A.INGEST, _A.STEP), "fatal fault, or verification impossible"),
    ("validating", "failed", (_A.STEP, _A.SWEEP), "verification failed, no attempts left"),
    ("healthy", "degraded", (_A.INGEST, _A.SWEEP, _A.CLI), "first condition of severity warning or worse"),
    ("degraded", "healthy", (_A.INGEST, _A.SWEEP), "last condition of severity warning or worse ended"),
    ("degraded", "quarantined", (_A.ISOLATE,), "isolation confirmed, no orchestrator, or instance proven unusable"),
    ("degraded", "degraded", (_A.ISOLATE,), "in service, cordoned; or uncordoned again"),
    ("healthy", "healthy", (_A.ISOLATE,), "in service, cordoned for its verification; or uncordoned again"),
    ("healthy", "quarantined", (_A.CLI, _A.ISOLATE), "quarantine ordered by an operator or by a finding"),
    ("quarantined", "draining", (_A.STEP,), "attempt admitted"),
    ("quarantined", "validating", (_A.ISOLATE, _A.CLI), "fault ended before the repair"),
    ("quarantined", "failed", (_A.ISOLATE, _A.CLI), "no automatic repair, approval denied, or no attempts left"),
    ("draining", "repairing", (_A.STEP,), "node drained, intent committed"),
    ("draining", "replacing", (_A.STEP,), "node drained, intent committed"),
    ("draining", "validating", (_A.STEP,), "node drained, diagnostics only"),
    ("draining", "quarantined", (_A.STEP, _A.SWEEP), "attempt stopped before the intent"),
    ("draining", "failed", (_A.STEP, _A.SWEEP), "drain impossible"),
    ("repairing", "validating", (_A.STEP,), "device or node back after the repair"),
    ("repairing", "replacing", (_A.STEP,), "repair action failed, new intent committed"),
    ("repairing", "quarantined", (_A.STEP, _A.SWEEP), "repair had no effect, or the next repair action is due"),
    ("repairing", "failed", (_A.STEP, _A.SWEEP), "repair failed and cannot be retried"),
    ("replacing", "provisioning", (_A.STEP,), "old instance released"),
    ("replacing", "validating", (_A.STEP,), "spare instance attached"),
    ("replacing", "quarantined", (_A.STEP, _A.SWEEP), "replacement refused before it had an effect"),
    ("replacing", "failed", (_A.STEP, _A.SWEEP), "replacement failed and cannot be retried, old instance still runs"),
    ("failed", "validating", (_A.CLI, _A.INVENTORY), "returned by an operator, or repaired by another system"),
    ("failed", "quarantined", (_A.CLI,), "repair retried by an operator"),
    ("retired", "provisioning", (_A.INVENTORY, _A.CLI), "node registered again, new epoch"),
)
_WITH_INSTANCE = ("validating", "healthy", "degraded", "quarantined", "draining", "repairing", "failed")
_BEFORE_RETIRED = (*_WITH_INSTANCE, "provisioning", "replacing")

NODE_EDGES: tuple[Edge, ...] = (
    *(Edge(source, target, frozenset(actors), on) for source, target, actors, on in _NODE_ROWS),
    *(
        Edge(source, "provisioning", frozenset({_A.INGEST, _A.INVENTORY}), "instance replaced by another system")
        for source in _WITH_INSTANCE
    ),
    *(Edge(source, "retired", frozenset({_A.INVENTORY, _A.CLI}), "node removed") for source in _BEFORE_RETIRED),
)

_CASE_ROWS = (
    (None, "open", (_A.INGEST, _A.SWEEP, _A.CLI, _A.INVENTORY), "fault that needs a repair, no live case"),
    ("open", "queued", (_A.INGEST, _A.SWEEP, _A.CLI, _A.INVENTORY, _A.CORRELATE), "waiting period over"),
    ("open", "resolved", (_A.INGEST, _A.SWEEP, _A.CLI), "all conditions ended"),
    (
        "open",
        "escalated",
        (_A.INGEST, _A.SWEEP, _A.CLI, _A.INVENTORY, _A.CORRELATE),
        "support needed, unknown code, or no repair action permitted",
    ),
    ("open", "absorbed", (_A.CORRELATE,), "case joined to a cluster incident"),
    ("open", "expired", (_A.SWEEP,), "reserved: not used in this version"),
    ("queued", "in_progress", (_A.DISPATCH,), "attempt admitted"),
    ("queued", "resolved", (_A.INGEST, _A.SWEEP, _A.CLI, _A.DISPATCH), "node recovered, case canceled, or dry run"),
    (
        "queued",
        "escalated",
        (_A.CLI, _A.SWEEP, _A.DISPATCH),
        "approval denied or timed out, or no repair action permitted",
    ),
    ("queued", "absorbed", (_A.CORRELATE,), "case joined to a cluster incident"),
    ("queued", "expired", (_A.SWEEP,), "reserved: not used in this version"),
    ("in_progress", "resolved", (_A.CLOSE, _A.STEP), "node back in service, or case canceled before the intent"),
    ("in_progress", "queued", (_A.STEP, _A.SWEEP), "attempt ended, to be retried later"),
    ("in_progress", "escalated", (_A.STEP, _A.SWEEP), "no attempts left, not retriable, or result unknown"),
    ("escalated", "queued", (_A.CLI, _A.INVENTORY), "retried by an operator, or repaired by another system"),
    ("escalated", "absorbed", (_A.CORRELATE,), "case without an attempt joined to a cluster incident"),
    ("absorbed", "absorbed", (_A.CORRELATE,), "case passed to another incident"),
    ("absorbed", "queued", (_A.CORRELATE, _A.CLI, _A.INVENTORY), "case released, canceled, or instance replaced"),
    ("absorbed", "escalated", (_A.CORRELATE, _A.CLI), "case released to an operator, or node quarantined"),
    ("absorbed", "resolved", (_A.CORRELATE,), "node healthy, and never isolated"),
)
_LIVE = tuple(status.value for status in CaseStatus if status.live)

CASE_EDGES: tuple[Edge, ...] = (
    *(Edge(source, target, frozenset(actors), on) for source, target, actors, on in _CASE_ROWS),
    *(Edge(source, "resolved", frozenset({_A.INVENTORY, _A.CLI}), "node removed") for source in _LIVE),
)


def allowed(edges: Iterable[Edge], source: str | None, target: str, actor: Actor) -> bool:
    """Return whether a transition table permits this actor to make this transition."""
    return any(edge.source == source and edge.target == target and actor in edge.actors for edge in edges)
