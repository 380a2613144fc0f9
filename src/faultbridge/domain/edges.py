"""The legal moves of nodes and cases, as data; `append` refuses every other one.

Tests, the diagrams in the docs and the check in `append` are all made from these two tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class NodeStatus(StrEnum):
    """What a node is doing."""

    PROVISIONING = "provisioning"
    VALIDATING = "validating"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    REPAIRING = "repairing"
    REPLACING = "replacing"
    FAILED = "failed"
    RETIRED = "retired"

    @property
    def in_service(self) -> bool:
        """Tell whether work may run on the node."""
        return self in {NodeStatus.HEALTHY, NodeStatus.DEGRADED}


class CaseStatus(StrEnum):
    """How far one trouble of one node has come."""

    OPEN = "open"
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    ESCALATED = "escalated"
    ABSORBED = "absorbed"
    RESOLVED = "resolved"
    EXPIRED = "expired"

    @property
    def live(self) -> bool:
        """Tell whether the case still needs somebody."""
        return self not in {CaseStatus.RESOLVED, CaseStatus.EXPIRED}


class Actor(StrEnum):
    """Who writes; ownership of a move is a column of the tables below."""

    INGEST = "ingest"
    SWEEP = "sweep"
    ISOLATE = "react:isolate"
    DISPATCH = "react:dispatch"
    ROLLUP = "react:rollup"
    CORRELATE = "react:correlate"
    STEP = "step"
    CLOSE = "step:close"
    INVENTORY = "inventory"
    ARCHIVE = "archive"
    CLI = "cli"


class Edge(NamedTuple):
    """One legal move; `source` is None where the node or case begins."""

    source: str | None
    target: str
    actors: frozenset[Actor]
    on: str


_A = Actor
_NODE_ROWS = (
    (None, "provisioning", (_A.INVENTORY, _A.CLI), "node registered, no instance"),
    (None, "validating", (_A.INVENTORY, _A.CLI), "node registered, new instance"),
    (None, "healthy", (_A.CLI, _A.INVENTORY), "import of a serving fleet, unverified"),
    ("provisioning", "validating", (_A.STEP, _A.INVENTORY), "successor claimed, generation raised"),
    ("provisioning", "replacing", (_A.STEP,), "launch failed, attempts left"),
    ("provisioning", "failed", (_A.STEP, _A.SWEEP), "deadline or attempts used"),
    ("validating", "healthy", (_A.STEP, _A.CLOSE), "verification passed, nothing active"),
    ("validating", "degraded", (_A.STEP, _A.CLOSE), "verification passed, a warning remains"),
    ("validating", "repairing", (_A.STEP,), "verification failed, attempts left"),
    ("validating", "replacing", (_A.STEP,), "verification failed, attempts left"),
    ("validating", "quarantined", (_A.INGEST, _A.STEP), "fatal fault, or verification impossible"),
    ("validating", "failed", (_A.STEP, _A.SWEEP), "verification failed, attempts used"),
    ("healthy", "degraded", (_A.INGEST, _A.SWEEP, _A.CLI), "first condition of warning or worse"),
    ("degraded", "healthy", (_A.INGEST, _A.SWEEP), "last condition of warning or worse gone"),
    (
        "degraded",
        "quarantined",
        (_A.ISOLATE,),
        "isolation confirmed, no orchestrator, or proven dead",
    ),
    ("healthy", "quarantined", (_A.CLI, _A.ISOLATE), "ordered by an operator or a finding"),
    ("quarantined", "draining", (_A.STEP,), "attempt admitted"),
    ("quarantined", "validating", (_A.ISOLATE, _A.CLI), "cause gone before repair"),
    ("quarantined", "failed", (_A.ISOLATE, _A.CLI), "no automatic action, denied or exhausted"),
    ("draining", "repairing", (_A.STEP,), "drained; intent committed"),
    ("draining", "replacing", (_A.STEP,), "drained; intent committed"),
    ("draining", "validating", (_A.STEP,), "diagnosis only"),
    ("draining", "quarantined", (_A.STEP, _A.SWEEP), "stopped before the intent"),
    ("draining", "failed", (_A.STEP, _A.SWEEP), "drain impossible"),
    ("repairing", "validating", (_A.STEP,), "device or node back"),
    ("repairing", "replacing", (_A.STEP,), "repair action failed; new intent"),
    ("repairing", "quarantined", (_A.STEP, _A.SWEEP), "no effect proven, or the next repair action is due"),
    ("repairing", "failed", (_A.STEP, _A.SWEEP), "not retriable"),
    ("replacing", "provisioning", (_A.STEP,), "old instance released"),
    ("replacing", "validating", (_A.STEP,), "a spare took the node"),
    ("replacing", "quarantined", (_A.STEP, _A.SWEEP), "refused before effect"),
    ("replacing", "failed", (_A.STEP, _A.SWEEP), "not retriable, old instance alive"),
    ("failed", "validating", (_A.CLI, _A.INVENTORY), "returned, or mended elsewhere"),
    ("failed", "quarantined", (_A.CLI,), "an operator tries again"),
    ("retired", "provisioning", (_A.INVENTORY, _A.CLI), "node used again, epoch + 1"),
)
_GONE_FROM = ("validating", "healthy", "degraded", "quarantined", "draining", "repairing", "failed")
_RETIRED_FROM = (*_GONE_FROM, "provisioning", "replacing")

NODE_EDGES: tuple[Edge, ...] = (
    *(Edge(source, target, frozenset(actors), on) for source, target, actors, on in _NODE_ROWS),
    *(
        Edge(source, "provisioning", frozenset({_A.INGEST, _A.INVENTORY}), "changed without our intent")
        for source in _GONE_FROM
    ),
    *(Edge(source, "retired", frozenset({_A.INVENTORY, _A.CLI}), "node removed") for source in _RETIRED_FROM),
)

_CASE_ROWS = (
    (None, "open", (_A.INGEST, _A.SWEEP, _A.CLI, _A.INVENTORY), "actionable fault, no live case"),
    ("open", "queued", (_A.INGEST, _A.SWEEP, _A.CLI, _A.INVENTORY), "wait over"),
    ("open", "resolved", (_A.INGEST, _A.SWEEP, _A.CLI), "all conditions ended"),
    (
        "open",
        "escalated",
        (_A.INGEST, _A.SWEEP, _A.CLI),
        "support needed, unknown code or empty list of repair actions",
    ),
    ("open", "absorbed", (_A.CORRELATE,), "a cluster incident takes it"),
    ("open", "expired", (_A.SWEEP,), "nothing new and nothing actionable left"),
    ("queued", "in_progress", (_A.DISPATCH,), "admitted"),
    ("queued", "resolved", (_A.INGEST, _A.SWEEP, _A.CLI, _A.DISPATCH), "recovered, cancelled or dry run"),
    ("queued", "escalated", (_A.CLI, _A.SWEEP, _A.DISPATCH), "denied, time over, or no repair action permitted"),
    ("queued", "absorbed", (_A.CORRELATE,), "a cluster incident takes it"),
    ("queued", "expired", (_A.SWEEP,), "approval over, policy drops it"),
    ("in_progress", "resolved", (_A.CLOSE, _A.STEP), "back in service, or cancelled before the intent"),
    ("in_progress", "queued", (_A.STEP, _A.SWEEP), "tried again later"),
    ("in_progress", "escalated", (_A.STEP, _A.SWEEP), "exhausted, not retriable or inconclusive"),
    ("escalated", "queued", (_A.CLI, _A.INVENTORY), "an operator tries again, or mended elsewhere"),
    ("absorbed", "queued", (_A.CORRELATE,), "the incident hands it back"),
    ("absorbed", "resolved", (_A.CORRELATE,), "node fine, never isolated"),
)
_LIVE = tuple(status.value for status in CaseStatus if status.live)

CASE_EDGES: tuple[Edge, ...] = (
    *(Edge(source, target, frozenset(actors), on) for source, target, actors, on in _CASE_ROWS),
    *(Edge(source, "resolved", frozenset({_A.INVENTORY, _A.CLI}), "node removed") for source in _LIVE),
)


def allowed(edges: Iterable[Edge], source: str | None, target: str, actor: Actor) -> bool:
    """Tell whether a table has this move for this actor."""
    return any(edge.source == source and edge.target == target and actor in edge.actors for edge in edges)
