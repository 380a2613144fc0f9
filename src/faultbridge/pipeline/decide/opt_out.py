"""Opt-out rule: until when no case opens for a node.

The rule concerns a node that is ignored, whose cluster is under maintenance, or that is absent during an update of its
group. The faults of such a node are still recorded. The rule is pure; `repair/opt_out.py` applies operators' orders to
ignore a node.
"""

from __future__ import annotations

from datetime import UTC, datetime

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.conditions import Condition
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import Ignored, NodeState
from faultbridge.domain.times import to_text

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)

LABEL = "label"
"""The value of `Ignored.by` if a tag of the instance or a label of the Kubernetes node excludes the node."""

LEAVING_CODES = frozenset({"cloud.instance_gone", "cloud.instance_stopped"})
"""Codes of an instance that its owner terminates or stops."""


def opted_out_until(state: NodeState, config: ClusterConfig, now: datetime) -> datetime | None:
    """Return the time until which a node is excluded from repairs, or None if it is not excluded now.

    The result is `FOREVER` if the exclusion has no end.
    """
    ignored = (state.ignored.until or FOREVER) if state.ignored else None
    ends = [end for end in (ignored, config.maintenance_until) if end is not None and end > now]
    return max(ends, default=None)


def exclusion_reason(state: NodeState, config: ClusterConfig, now: datetime) -> str | None:
    """Return why a node is excluded from repairs, and until when; None if it is not excluded now."""
    until = opted_out_until(state, config, now)
    if until is None:
        return None
    reason = "the node is ignored or its cluster is under maintenance"
    return f"{reason} until {to_text(until)}" if until < FOREVER else reason


def deferred_until(state: NodeState, condition: Condition, config: ClusterConfig, now: datetime) -> datetime | None:
    """Return the time before which a condition opens no case, or None if it may open a case now.

    Until then, the node is excluded from repairs, or its absence is explained by the update of its group.
    """
    hold = config.update_hold(state.placement.group, now) if is_absence(condition) else None
    ends = (opted_out_until(state, config, now), hold.until if hold else None)
    return max((end for end in ends if end is not None), default=None)


def is_absence(condition: Condition) -> bool:
    """Return whether a condition only reports an absent node, as expected during an update of its group."""
    return condition.family is Family.HEARTBEAT or condition.code in LEAVING_CODES


def start_ignoring(state: NodeState, ignored: Ignored) -> NodeState:
    """Return the node with an exclusion from repairs; `ignored` states the reason and the end."""
    return replace(state, ignored=ignored)


def stop_ignoring(state: NodeState, now: datetime) -> NodeState:
    """Return the node without its exclusion from repairs; a deferred case becomes due at once."""
    due = now if state.case_deferred_until is not None else state.due_at
    return replace(state, ignored=None, due_at=due)
