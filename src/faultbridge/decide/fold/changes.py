"""Changes: the input of the fold stage (observations) and its output (changes, outcomes of records)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.conditions import Condition
from faultbridge.model.faults import Fault, Observation
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import Outcome

ADDED_CODE = "codes"
"""The part of a condition that changed if its failure was reported under a further fault code."""


class ChangeKind(StrEnum):
    """The effect of an observation on a node.

    `noted`: an informational fault, recorded at most once a day. `late`: a fault of an earlier instance or boot.
    `devices`: devices that this instance shows for the first time.
    """

    BEGAN = "began"
    UPDATED = "updated"
    ENDED = "ended"
    NOTED = "noted"
    LATE = "late"
    DEVICES = "devices"


class Arrival(Struct, frozen=True):
    """One observation that is ready to be applied to a node.

    `at` is its time, corrected for an error of the sender's clock. `incarnation` states whether it is about the node's
    current instance and boot. `instance_id` is the instance that the record names, or else the instance on which the
    authenticated `sender` runs. `claimed` is True for a claim: a webhook's report, for example
    (`Trust.is_claim`), or a fault from text of syslog (`trust.is_claim`).
    """

    observation: Observation
    at: datetime
    record_id: str
    incarnation: IncarnationMatch = IncarnationMatch.CURRENT
    instance_id: str | None = None
    sender: str | None = None
    claimed: bool = False


class Change(Struct, frozen=True):
    """One change to record: the condition after it, its fault, what an update changed, and facts of its note."""

    kind: ChangeKind
    at: datetime
    condition: Condition | None = None
    fault: Fault | None = None
    record_id: str | None = None
    reason: str = ""
    changed_parts: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)


class Folded(Struct, frozen=True):
    """The node's next state, its changes, each record's outcome, and what exceeds the limits of one commit."""

    state: NodeState
    changes: tuple[Change, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    remaining: tuple[Arrival, ...] = ()
