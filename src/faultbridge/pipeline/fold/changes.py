"""Changes: the input of fold (arrivals) and its output (changes and outcomes of records)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.conditions import Condition
from faultbridge.domain.faults import Fault, Observation
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.records import Outcome
from faultbridge.pipeline.normalize.resolve import IncarnationMatch


class ChangeKind(StrEnum):
    """The effect of an observation on a node.

    `noted`: informational, recorded at most once a day. `late`: about an earlier instance or boot.
    `devices`: devices seen for the first time in this instance.
    """

    BEGAN = "began"
    UPDATED = "updated"
    ENDED = "ended"
    NOTED = "noted"
    LATE = "late"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One observation that is ready to be folded into a node.

    `at` is its time by a corrected clock of the sender. `incarnation` says whether it is about the node's current
    instance and boot. `instance_id` is the instance that the record names, or else the one on which the authenticated
    `sender` runs. `claimed` is set when nothing proves that the sender is the node (`Trust.is_claim`).
    """

    observation: Observation
    at: datetime
    record_id: str
    incarnation: IncarnationMatch = IncarnationMatch.CURRENT
    instance_id: str | None = None
    sender: str | None = None
    claimed: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One change to record on the timeline: the condition after it, and the fault that caused it.

    `changed_parts` names what an update changed: `count`, `severity`, `reporters` or `component`. `facts` are added to
    the note of a change without a condition.
    """

    kind: ChangeKind
    at: datetime
    condition: Condition | None = None
    fault: Fault | None = None
    record_id: str | None = None
    reason: str = ""
    changed_parts: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of fold: the node's next state, the changes to record, and each record's outcome.

    `remaining` are the observations whose changes exceed the limits of one commit. Fold them again after the commit.
    """

    state: NodeState
    changes: tuple[Change, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    remaining: tuple[Arrival, ...] = ()
