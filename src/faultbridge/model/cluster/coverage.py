"""Coverage: from which nodes of a cluster reports arrive, and which have never reported."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Struct, field

from faultbridge.model.conditions import source_of
from faultbridge.model.event_data import doc
from faultbridge.model.nodes import NodeState
from faultbridge.model.stored import Stored

HEARTBEAT = "heartbeat"
NO_DATA_AFTER = 10
"""A node without heartbeats has no data if no report arrived for this many heartbeat timeouts.

A node that has never reported has as much time from the start of its instance."""

UNSEEN_AFTER = timedelta(hours=1)
"""A group is paged if none of its nodes has reported for this time after it was first found."""


class LastReport(Struct, frozen=True):
    """The last report of a node: when it arrived, and from which source."""

    at: datetime
    source: Annotated[str, doc("Source of the report, such as `heartbeat` or `nvidia-smi-xml`.")]


class Coverage(Stored, frozen=True):
    """What the sweep last found about the reports of a cluster's nodes.

    - `nodes` counts the registered nodes, except retired ones, and `reporting` those whose reports arrive.
    - `never` are the nodes from which no report ever arrived. `no_data` are those of them that had time to report, and
      the nodes whose reports stopped for too long although no heartbeat shows that they are silent.
    - `unseen` maps each group from none of whose nodes a report arrived to the time since when this is known, and
      `paged` are those of them about which a page was sent.
    """

    at: datetime
    nodes: int
    reporting: int
    never: tuple[str, ...] = ()
    no_data: tuple[str, ...] = ()
    unseen: Mapping[str, datetime] = field(default_factory=dict)
    paged: tuple[str, ...] = ()


def last_report(state: NodeState, heartbeat: datetime | None) -> LastReport | None:
    """Return the last report of a node, given its last heartbeat; None if there is none.

    Heartbeats, health snapshots and active conditions count. A missing heartbeat that the sweep found does not.
    """
    reports = [(at, source_of(key)) for key, at in state.snapshots.items()]
    reports += [
        (reporter.last_at, source_of(key))
        for condition in state.active()
        for key, reporter in condition.reporters.items()
        if source_of(key) != HEARTBEAT
    ]
    reports += [(heartbeat, HEARTBEAT)] if heartbeat else []
    return LastReport(*max(reports)) if reports else None
