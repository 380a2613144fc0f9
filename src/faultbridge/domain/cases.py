"""Cases: everything of one trouble of one node, and the attempts to repair it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.faults import Action, Component, Severity

APPROVED, DENIED = "approved", "denied"


class RepairAction(StrEnum):
    """A step of the repair list of repair actions, mildest first."""

    VERIFY = "verify"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"

    @property
    def needs_slot(self) -> bool:
        """Tell whether an attempt at this repair action counts against the repair budget."""
        return self is not RepairAction.VERIFY


REPAIR_ACTION_OF: Mapping[Action, RepairAction] = {
    Action.RUN_DIAGNOSTICS: RepairAction.VERIFY,
    Action.RESET_GPU: RepairAction.RESET_GPU,
    Action.REBOOT_NODE: RepairAction.REBOOT_NODE,
    Action.REPLACE_NODE: RepairAction.REPLACE_NODE,
}


class WaitingFor(StrEnum):
    """What a queued case waits for."""

    WAIT = "wait"
    APPROVAL = "approval"
    WINDOW = "window"
    BUDGET = "budget"
    BREAKER = "breaker"
    CAPACITY = "capacity"
    INCIDENT = "incident"
    PAUSE = "pause"


class Resolution(StrEnum):
    """How a case ended."""

    REPAIRED = "repaired"
    REPLACED = "replaced"
    RECOVERED = "recovered"
    BY_OPERATOR = "by_operator"
    EXTERNAL = "external"
    CANCELLED = "cancelled"
    DRY_RUN = "dry_run"
    RETIRED = "retired"


EXTERNAL = "external"
"""The mark of a case whose node was replaced by somebody else before Faultbridge gave anything up."""


class Phase(StrEnum):
    """How far the live attempt has come; everything right of `intent` goes only forward."""

    ADMITTED = "admitted"
    DRAINING = "draining"
    INTENT = "intent"
    ACTED = "acted"
    AWAITING = "awaiting"
    VERIFYING = "verifying"
    CLOSING = "closing"


@dataclass(frozen=True, slots=True)
class Intent:
    """The point of no return: which instance is given up, at which repair action, under which idempotency token."""

    repair_action: RepairAction
    instance_id: str
    generation: int
    token: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One admitted try; `steps` keeps each step's outcome so that a repeated call answers the same.

    `step` is the one under way since `since`, looked at `tries` times and waited for with `task_token` until
    `deadline`; `probe_at` is when somebody looks after the attempt in any case. What is seen on the node after
    `watched_since` speaks against its repair. `launches` counts those of a successor that came to nothing: the next one
    has another token; `spare` is the machine that it took out of the pool.
    """

    number: int
    phase: Phase
    step: str | None = None
    since: datetime | None = None
    tries: int = 0
    intent: Intent | None = None
    successor: str | None = None
    operation: str | None = None
    task_token: str | None = None
    deadline: datetime | None = None
    probe_at: datetime | None = None
    watched_since: datetime | None = None
    bundle_since: datetime | None = None
    launches: int = 0
    spare: str | None = None
    steps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person is asked about one attempt, until when, and what the answer was (None: none yet)."""

    attempt: int
    asked_at: datetime
    answer_by: datetime
    granted: bool | None = None
    operator: str | None = None

    @property
    def answer(self) -> str | None:
        """Return the answer in a word; None where there is none yet."""
        return None if self.granted is None else APPROVED if self.granted else DENIED


@dataclass(frozen=True, slots=True)
class Case:
    """The live case of a node, kept inside its state: at most one, by construction.

    `marks` says when the case first reached each status or phase; the closing entry turns it into durations.
    `uncounted` attempts ended for want of capacity, by a pause or at a repair action that another follows, and are none of those
    that the policy allows;
    `cancelled` cases give nothing up any more and only bring their node back.
    """

    id: str
    status: CaseStatus
    opened_at: datetime
    code: str
    component: Component
    severity: Severity
    action: Action
    repair_action: RepairAction
    rule: str
    policy: str
    isolate: bool = True
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    attempts: int = 0
    uncounted: int = 0
    attempt: Attempt | None = None
    approval: Approval | None = None
    cancelled: bool = False
    resolution: Resolution | None = None
    reason: str = ""
    marks: Mapping[str, datetime] = field(default_factory=dict)
    previous_case: str | None = None
    closed_at: datetime | None = None
    gpus: int | None = None

    @property
    def execution(self) -> str:
        """Return the name under which the live attempt's execution runs."""
        return f"{self.id}-{self.attempts}"

    @property
    def tried(self) -> int:
        """Return how many attempts count against those that the policy allows."""
        return self.attempts - self.uncounted

    @property
    def asking(self) -> Approval | None:
        """Return what a person is asked and has not answered yet."""
        unanswered = self.approval is not None and self.approval.granted is None
        return self.approval if unanswered and self.status is CaseStatus.QUEUED else None

    @property
    def approved_attempt(self) -> int | None:
        """Return which attempt a person let begin last."""
        found = self.approval
        return found.attempt if found is not None and found.granted is True else None

    @property
    def approved(self) -> bool:
        """Tell whether a person let the next attempt begin."""
        return self.approved_attempt == self.attempts + 1


def case_id(stack_id: str, cluster: str, node: str, epoch: int, sequence: int) -> str:
    """Derive the id of the case that opens with the entry of this sequence: `c-` and 26 base32 characters."""
    text = "/".join((stack_id, cluster, node, str(epoch), str(sequence)))
    digest = hashlib.sha256(text.encode()).digest()
    return "c-" + base64.b32encode(digest).decode().lower()[:26]
