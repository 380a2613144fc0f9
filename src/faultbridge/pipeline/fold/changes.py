"""What fold takes and gives: arrivals in, changes and outcomes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from faultbridge.domain.conditions import Condition
from faultbridge.domain.faults import Fault, Observation
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.records import Outcome
from faultbridge.pipeline.normalize.resolve import Sits


class ChangeKind(StrEnum):
    """What an observation did to a node."""

    BEGAN = "began"
    UPDATED = "updated"
    ENDED = "ended"
    NOTED = "noted"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One observation with a settled time, the record it came in and the incarnation it is about."""

    observation: Observation
    at: datetime
    record_id: str
    sits: Sits = Sits.CURRENT


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that belongs on the record: the condition as it is now, and the fault that made the difference.

    `what` names the parts of a condition that an update changed: `count`, `severity`, `reporters`, `component`.
    """

    kind: ChangeKind
    at: datetime
    condition: Condition | None = None
    fault: Fault | None = None
    record_id: str | None = None
    reason: str = ""
    what: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Folded:
    """The node after the observations, what is worth an entry, and the outcome of each record."""

    state: NodeState
    changes: tuple[Change, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
