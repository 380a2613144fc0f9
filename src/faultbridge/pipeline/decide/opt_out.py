"""Leave alone: a node that somebody keeps for himself, a cluster under maintenance; recorded, and nothing is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import Ignored, NodeState

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)


def left_alone_until(state: NodeState, config: ClusterConfig, now: datetime) -> datetime | None:
    """Return until when nothing may be done about a node, or None where it may."""
    ignored = (state.ignored.until or FOREVER) if state.ignored else None
    ends = [end for end in (ignored, config.maintenance_until) if end is not None and end > now]
    return max(ends, default=None)


def ignoring(state: NodeState, ignored: Ignored) -> NodeState:
    """Leave a node alone from now on."""
    return replace(state, ignored=ignored)


def heeding(state: NodeState, now: datetime) -> NodeState:
    """Look after a node again; what was put off is due at once."""
    due = now if state.put_off_until is not None else state.due_at
    return replace(state, ignored=None, due_at=due)
