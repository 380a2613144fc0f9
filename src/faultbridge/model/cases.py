"""Cases: the record of one repair or verification of a node from its cause to closure, with attempts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import field

from faultbridge.model.conditions import condition_key
from faultbridge.model.enums import CaseStatus, ProviderFailure, RepairAction, Resolution, WaitingFor
from faultbridge.model.event_data import CaseFacts
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Component
from faultbridge.model.stored import Stored

APPROVED, DENIED, ACKNOWLEDGED = "approved", "denied", "acknowledged"


REPAIR_ACTION_OF: Mapping[Action, RepairAction] = {
    Action.RUN_DIAGNOSTICS: RepairAction.VERIFY,
    Action.RESET_GPU: RepairAction.RESET_GPU,
    Action.REBOOT_NODE: RepairAction.REBOOT_NODE,
    Action.REPLACE_NODE: RepairAction.REPLACE_NODE,
}


EXTERNAL, RELEASED = "external", "released"
"""The keys in `Case.marks` that are set when another system replaced an instance, and when Faultbridge released one."""

ACCEPTED = "accepted"
"""The key in `Case.marks` for when a provider accepted a release that it completes later, as Karpenter does."""

ESCALATED_AT = "escalated_at"
"""The key in `Case.marks` for the last time at which the case was escalated to an operator."""

OUT_OF_SERVICE = "out_of_service"
"""The key in `Case.marks` for the first time at which the node was out of service while the case was live."""

DRAIN = "its drain"
"""What a node waits for while work on it delays its drain, in the note that pages."""

HELD_SINCE, WORK = "held", "its work to end"
"""The key in `Case.marks` for since when work holds the repair of a node out of service, and its name in a page."""

FAILED_STEP = "failed_step"
"""The key in `Case.marks` for the start of the step that failed the last failed repair attempt."""

INSTANCE_ADDED = "cloud.instance_added"
"""The code of a case whose node has never been in service: its instance joined the group and is verified first."""


class Phase(StrEnum):
    """The phases of a repair attempt in order. An attempt that has an intent cannot be canceled."""

    ADMITTED = "admitted"
    DRAINING = "draining"
    INTENT = "intent"
    ACTED = "acted"
    AWAITING = "awaiting"
    VERIFYING = "verifying"
    CLOSING = "closing"


class Reason(Stored, frozen=True):
    """Why a case or a node has its status, as a text for readers; `str` adds what precedes the text.

    `failure` is the failure code of the step that failed, such as `CAPACITY`. `lead` is another text before `text`,
    which an operator or an incident gave, such as `denied`.
    """

    text: str = ""
    failure: ProviderFailure | None = None
    lead: str | None = None

    @classmethod
    def of(cls, reason: str | Reason) -> Reason:
        """Return a reason; a plain text has nothing before it."""
        return reason if isinstance(reason, Reason) else cls(reason)

    def __str__(self) -> str:
        """Return the sentence, such as `CAPACITY: no instance is free`."""
        return self.text if self.detail is None else f"{self.failure or self.lead}: {self.text}"

    @property
    def detail(self) -> str | None:
        """Return the text if a failure code or another text precedes it in the sentence, else None."""
        return self.text if self.failure or self.lead else None

    def plus(self, more: str) -> Reason:
        """Return the reason with more text at its end."""
        return Reason(f"{self.text}{more}", self.failure, self.lead)


class Intent(Stored, frozen=True):
    """The committed decision to repair or release one instance: the attempt's point of no return.

    `token` makes the release or restart idempotent. `generation` is 1 for the node's first instance.
    """

    repair_action: RepairAction
    instance_id: str
    generation: int
    token: str
    at: datetime


class Attempt(Stored, frozen=True):
    """One admitted repair attempt of a case and its progress.

    `step` is the latest step, which started at `since`. `steps` maps each finished step to its outcome. Outcomes are
    sent to Step Functions with `task_token`. The sweep checks the attempt at `probe_at`; `tries` counts these checks
    since the last step started or ended. `operation` is the id of the verification or restart that was started last.
    Faults after `watched_since` can fail a verification. Log collection started at `bundle_since`. `spare` is the
    instance id of the taken spare. A launch without intent stores `launch_token`. `launches` counts refused launches.
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
    launch_token: str | None = None
    spare: str | None = None
    instance_types: tuple[str, ...] = ()
    steps: Mapping[str, str] = field(default_factory=dict)


class Approval(Stored, frozen=True):
    """An approval request for one repair action of one attempt, and the operator's answer.

    `granted` is None until an operator answers. The answer is valid only for this repair action and this attempt.
    `by_rule` is False if missing evidence of EC2 capacity, and no policy rule, requires the approval.
    """

    attempt: int
    repair_action: RepairAction
    asked_at: datetime
    answer_by: datetime
    granted: bool | None = None
    operator: str | None = None
    by_rule: bool = True

    @property
    def answer(self) -> str | None:
        """Return `approved` or `denied`, or None while the request is unanswered."""
        return None if self.granted is None else APPROVED if self.granted else DENIED


class Case(CaseFacts, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One case: the record of one fault of a node from detection to closure.

    `mode` is the failure mode of the fault, and `code` is the code under which it was first reported.
    `marks` maps statuses and phases to the time when the case first reached them, and has keys such as `EXTERNAL`.
    `uncounted` is the number of attempts that do not count against the policy's limit. A `cancelled` case releases no
    instance: an attempt after the cancellation only verifies the node. `incident` is the id of the cluster incident for
    which an absorbed case waits. The id is kept if the node is only verified after the incident. `held_from` is the
    status before the case was absorbed, or `escalated` if the case needed an operator. `relapse_of` is the id of the
    earlier case whose repaired fault came back.
    `governed_by` names the policy rules of the attempts so far, which also apply to the next attempt. Since
    `capacity_since`, the case finds no capacity; `capacity_checks` counts the checks without an attempt. With
    `wait_paged`, an operator was paged because the node waits too long. `claimed` is True
    while no fault of the case was ever proven or confirmed. `recurring` is True if the node was cordoned and returned
    to work too often within a day. `drain_for` is the key of the condition for which the work of the node may leave,
    because its jobs saved a checkpoint.
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
    attempts: int = 0
    uncounted: int = 0
    attempt: Attempt | None = None
    approval: Approval | None = None
    cancelled: bool = False
    resolution: Resolution | None = None
    because: Reason = Reason()
    marks: Mapping[str, datetime] = field(default_factory=dict)
    previous_case: str | None = None
    closed_at: datetime | None = None
    incident: str | None = None
    held_from: CaseStatus | None = None
    relapse_of: str | None = None
    governed_by: tuple[str, ...] = ()
    capacity_since: datetime | None = None
    capacity_checks: int = 0
    wait_paged: bool = False
    claimed: bool = False
    recurring: bool = False
    drain_for: str | None = None
    mode: str = ""
    unknown_attributes: dict[str, Any] | None = None

    @property
    def condition_key(self) -> str:
        """Return the key of the condition that the case is about; the node has it while the failure is active."""
        return condition_key(self.mode, self.component)

    @property
    def reason(self) -> str:
        """Return the sentence for readers that states why the case has its status."""
        return str(self.because)

    @property
    def execution(self) -> str:
        """Return the name of the Step Functions execution of the current attempt."""
        return f"{self.id}-{self.attempts}"

    @property
    def before_service(self) -> bool:
        """Return whether the case verifies a new node that was never in service."""
        return self.code == INSTANCE_ADDED

    @property
    def unrequested_instance(self) -> bool:
        """Return True if Faultbridge did not request the instance. The instance may then already run jobs."""
        return self.before_service or EXTERNAL in self.marks

    @property
    def counted_attempts(self) -> int:
        """Return the number of attempts that count against the policy's limit."""
        return self.attempts - self.uncounted

    @property
    def awaits_correlation(self) -> bool:
        """Return whether the case may be absorbed by an incident before it is escalated to an operator."""
        return self.status is CaseStatus.OPEN and self.waiting_for is WaitingFor.CORRELATION

    @property
    def keeps_out(self) -> bool:
        """Return whether the node must pass verification before it returns to service, even if the fault ends."""
        return self.isolate and (self.relapse_of is not None or self.recurring) and not self.claimed

    @property
    def pending_approval(self) -> Approval | None:
        """Return the approval request of a queued case while it is unanswered, else None."""
        unanswered = self.approval is not None and self.approval.granted is None
        return self.approval if unanswered and self.status is CaseStatus.QUEUED else None

    def approves(self, repair_action: RepairAction, attempt: int) -> bool:
        """Return whether an operator approved this repair action for this attempt."""
        given = self.approval if self.approval is not None and self.approval.granted else None
        return given is not None and (given.repair_action, given.attempt) == (repair_action, attempt)

    @property
    def approved(self) -> bool:
        """Return whether an operator approved the current repair action for the next attempt of the case."""
        return self.approves(self.repair_action, self.attempts + 1)


def case_id(stack_id: str, cluster: str, node: str, epoch: int, sequence: int) -> str:
    """Derive a case id from the stream position of the first entry in the commit that opens the case."""
    text = "/".join((stack_id, cluster, node, str(epoch), str(sequence)))
    digest = hashlib.sha256(text.encode()).digest()
    return "c-" + base64.b32encode(digest).decode().lower()[:26]
