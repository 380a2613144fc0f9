"""Event data: the classes of the data of all events, which the parts of Faultbridge that record entries construct.

`python -m infra.event_models` writes the models of consumers (`events/`) and the JSON schemas (`schemas/`) from these
classes. A field without a default is always present in the event. A field whose default is `UNSET` is left out of the
event if nothing is given for it. A new field needs a default, because earlier events do not have it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field, structs, to_builtins

from faultbridge.model import faults
from faultbridge.model.enums import (
    CASE_ID,
    MAX_JOB_EVIDENCE,
    MAX_LISTED,
    UUID,
    BreakerScope,
    CaseStatus,
    CauseDomain,
    ClusterStatus,
    ConditionKind,
    DomainKind,
    EntryType,
    HardwareVerdict,
    IncidentChangeKind,
    IncidentStatus,
    Isolation,
    JobChangeKind,
    JobOutcome,
    NodeStatus,
    NoteKind,
    Outlook,
    ProviderFailure,
    ProviderHealth,
    ProviderStage,
    RepairAction,
    Resolution,
    SafetyKind,
    SafetyState,
    WaitingFor,
)
from faultbridge.model.fault_enums import Action, ComponentType, Family, Severity
from faultbridge.model.times import to_text

PCI = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(\.[0-9a-f])?$"
SHA256 = r"^[0-9a-f]{64}$"


def doc(text: str, max_length: int | None = None) -> Meta:
    """Return the description of a field, which consumers read, and the maximum length of a list."""
    return Meta(description=text, max_length=max_length)


Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[int, Meta(ge=0, extra_json_schema={"x-unit": "ms"})]
EventId = Annotated[str, Meta(pattern=UUID, extra_json_schema={"format": "uuid"})]
Version = Annotated[str, Meta(pattern=r"^[1-9][0-9]*\.[0-9]+$")]
CaseId = Annotated[str, Meta(pattern=f"^{CASE_ID}$")]
Sha256 = Annotated[str, Meta(pattern=SHA256)]
Pci = Annotated[str, Meta(pattern=PCI)]

Facts = Annotated[dict[str, Any], doc("Details for readers. Do not match rules on them.")]
Failure = Annotated[ProviderFailure | UnsetType, doc("Failure of the step; `reason` starts with it.")]
Detail = Annotated[str | UnsetType, doc("The end of `reason` that a step, an operator or an incident gave.")]
Evidence = Annotated[
    str | UnsetType,
    doc("The raw text, at most 4 KB. It is not part of the hashed body; `evidence_sha256` is."),
]
EvidenceHash = Annotated[Sha256 | UnsetType, doc("SHA-256 of the complete evidence, before it is shortened.")]
EvidenceUri = Annotated[Text | UnsetType, doc("Location of the complete raw data, if it is stored.")]

T = TypeVar("T")


def or_unset(value: T | None) -> T | UnsetType:
    """Return a value, or `UNSET` if it is None."""
    return UNSET if value is None else value


class EventData(Struct, frozen=True, kw_only=True):
    """The base of the data of every event, and of each of its parts."""


def plain(data: Struct) -> dict[str, Any]:
    """Return a structure as a JSON object; times stay datetimes, which `entries.event_json` writes."""
    converted: dict[str, Any] = to_builtins(data, builtin_types=(datetime,))
    return converted


def json_text(document: object, indent: int | None = None, *, ascii_only: bool = True) -> str:
    """Return the JSON of documents, such as structures in lists and mappings; `times.to_text` gives texts of times."""
    return json.dumps(
        to_builtins(document, builtin_types=(datetime,)), default=to_text, indent=indent, ensure_ascii=ascii_only
    )


class Component(EventData, frozen=True, kw_only=True):
    """A part of a node, with all its known identifiers."""

    type: ComponentType
    pci: Annotated[
        Pci | None, doc("PCI address `dddd:bb:dd` in lower case; the function is appended only if it is not 0.")
    ]
    uuid: Annotated[str | None, doc("The vendor's UUID, such as `GPU-...`.")]
    index: Annotated[Count | None, doc("The driver's index. It may change at a reboot.")]
    serial: Annotated[str | None, doc("Serial number. The two GPUs of a Grace Blackwell module may share one.")]
    link: Annotated[Count | None, doc("Link number, for a component with several links.")]
    name: Annotated[str | None, doc("Name in the operating system, such as `mlx5_0`.")]

    def identity(self) -> faults.Component:
        """Return the component as the state of a node has it."""
        return faults.Component(*structs.astuple(self))


class Incarnation(EventData, frozen=True, kw_only=True):
    """The instance and boot that back a node."""

    instance_id: Annotated[str | None, doc("EC2 instance id, if known.")]
    instance: Annotated[Count, doc("Number of this instance among the instances of the node, from 1.")]
    boot: Annotated[Count, doc("Number of this boot among the known boots of the instance, from 1.")]


class Placement(EventData, frozen=True, kw_only=True):
    """The group, instance type and failure domain of a node.

    A replacement of the node's instance can change the instance type and the failure domain.
    """

    group: Annotated[str | None, doc("Instance group or Auto Scaling group.")]
    instance_type: Annotated[str | None, doc("EC2 instance type.")]
    domain: Annotated[str | None, doc("Failure domain, such as a rack or a switch.")]
    domains: Annotated[
        dict[str, str],
        doc("Failure domains by kind, such as `rack`, as the inventory reports or an operator declared."),
    ] = field(default_factory=dict)


class NodeList(EventData, frozen=True, kw_only=True):
    """A list of nodes: the number of nodes, and the first fifty names in alphabetical order."""

    count: Count
    listed: Annotated[
        tuple[Text, ...], doc("Sorted names. Shorter than `count` if there are more than fifty nodes.", MAX_LISTED)
    ]


class FaultReference(EventData, frozen=True, kw_only=True):
    """A fault, named by its fault code and its component."""

    code: Annotated[Text, doc("Fault code, such as `xid.79`; for a condition, that of its first report.")]
    component: Component
    failure_mode: Annotated[Text | UnsetType, doc("Failure mode of the condition, such as `gpu.lost`.")] = UNSET


class FaultData(EventData, frozen=True, kw_only=True):
    """The state of a condition after a change, and the observation that caused the change, if any."""

    failure_mode: Annotated[Text, doc("What is physically wrong, independent of its reporter, such as `gpu.lost`.")]
    code: Annotated[Text, doc("Fault code of the first report, such as `xid.79`.")]
    codes: Annotated[tuple[Text, ...], doc("All fault codes so far under which sources reported it.")]
    added_code: Annotated[
        Text | UnsetType, doc("Fault code under which it was reported for the first time; at most eight an hour.")
    ] = UNSET
    because_of: Annotated[
        Text | UnsetType, doc("Active condition (`mode@component`) that explains it, so that it needs no action.")
    ] = UNSET
    component: Component
    severity: Annotated[Severity, doc("Severity for the node, after policy.")]
    action: Annotated[Action, doc("Recommended action, after policy.")]
    message: Annotated[str, doc("One line of text for readers.")]
    since: Annotated[datetime, doc("When the condition started.")]
    observed_at: Annotated[datetime, doc("When the observation behind this event was made.")]
    count: Annotated[Positive, doc("Lower bound of the number of observations.")]
    reporters: Annotated[tuple[Text, ...], doc("Sources that report it now; empty after it is cleared.")]
    source: Annotated[Text | None, doc("Source of the observation; null if time or policy ended the condition.")]
    attributes: Annotated[dict[str, str], doc("Details, with the source's field names in lower case.")]
    changed: Annotated[
        tuple[Text, ...],
        doc("What an update changed: `count` (powers of ten), `severity`, `reporters`, `codes`, `component`, `mode`."),
    ]
    reason: Annotated[str | None, doc("Why it changed or ended, if known.")]
    incarnation: Annotated[Incarnation | None, doc("Instance and boot with the fault; null if unknown.")]
    placement: Annotated[Placement | None, doc("Place of the node in its cluster.")] = None
    rule: Annotated[Text, doc("Policy rule that set severity and action.")]
    policy: Annotated[Text, doc("Policy version.")]
    catalog: Annotated[Text, doc("Fault catalog version.")]
    evidence: Evidence = UNSET
    evidence_sha256: EvidenceHash = UNSET
    evidence_uri: EvidenceUri = UNSET


class NodeStatusData(EventData, frozen=True, kw_only=True):
    """The status of a node before and after a change, and the instance that backs the node."""

    from_: Annotated[NodeStatus | None, doc("Null for a newly registered node.")] = field(name="from")
    to: NodeStatus
    reason: Annotated[str, doc("One line of text for readers: a fault code, a step or an order.")]
    failure: Failure = UNSET
    detail: Detail = UNSET
    incarnation: Annotated[Incarnation | None, doc("Instance and boot of the node; null without an instance.")]
    isolation: Isolation
    unverified: Annotated[bool, doc("True for an imported node that was put in service without verification.")]
    placement: Annotated[Placement | None, doc("Place of the node in its cluster.")] = None


class NoteData(EventData, frozen=True, kw_only=True):
    """A note about a node or a cluster."""

    kind: NoteKind
    text: Annotated[str, doc("One line of text for readers.")]
    about: Annotated[FaultReference | None, doc("The fault that the note concerns, if any.")]
    facts: Facts
    operator: Annotated[Text | None, doc("ARN of the operator who gave an order or a comment.")] = None
    stage: Annotated[Text | UnsetType, doc("For notes that start or end something: `begun`, `overdue` or `over`.")] = (
        UNSET
    )
    evidence: Evidence = UNSET
    evidence_sha256: EvidenceHash = UNSET
    evidence_uri: EvidenceUri = UNSET


class Cause(EventData, frozen=True, kw_only=True):
    """The fault for which a case was opened."""

    failure_mode: Annotated[Text, doc("What is physically wrong, independent of its reporter, such as `gpu.lost`.")]
    code: Annotated[Text, doc("Fault code of the first report, such as `xid.79`.")]
    codes: Annotated[tuple[Text, ...], doc("All fault codes so far, while the condition is active.")]
    component: Component
    message: Annotated[str | None, doc("The condition's message, while the condition is active.")] = None


class Receipt(EventData, frozen=True, kw_only=True):
    """What a closed case cost, and would have cost under other rules of repair: GPUs times milliseconds without work.

    A value is null if it is unknown. The page `service-level` states the rules, and what each name in `unknown` means.
    """

    recorded: Annotated[Milliseconds | None, doc("As it was: the GPU time out of service.")]
    provider_repair: Annotated[
        Milliseconds | None, doc("If the provider had replaced the instance, as EKS node auto repair does.")
    ] = None
    no_automation: Annotated[Milliseconds | None, doc("If an operator had repaired the node.")] = None
    unknown: Annotated[tuple[Text, ...], doc("What the record does not show, and a rule therefore assumes.")]


class CaseFacts(EventData, frozen=True, kw_only=True):
    """What a case states in the same words everywhere: in its state and its item, in its events and in the API.

    A new field of a case that readers see is declared here, and nowhere else. It needs a default and a description.
    """

    not_before: Annotated[datetime | None, doc("Earliest time at which a waiting case continues.")] = None
    gpus: Annotated[Count | None, doc("Number of GPUs of the node, if known.")] = None
    owner: Annotated[Text | None, doc("Who acknowledged the case last: an ARN or the subject of a token.")] = None
    owner_note: Annotated[str, doc("What the owner noted.")] = ""
    acknowledged_until: Annotated[datetime | None, doc("Until when no urgent page about it is repeated.")] = None

    def facts(self) -> dict[str, Any]:
        """Return these fields by name, for another class that has them."""
        return {name: getattr(self, name) for name in CaseFacts.__struct_fields__}


class CaseStatusData(CaseFacts, frozen=True, kw_only=True):
    """The data of a case event: the status of a case before and after a change, and the cause of the case."""

    from_: Annotated[CaseStatus | None, doc("Null when the case opens.")] = field(name="from")
    to: CaseStatus
    reason: Annotated[str, doc("One line of text for readers.")]
    failure: Failure = UNSET
    detail: Detail = UNSET
    waiting_for: Annotated[
        WaitingFor | None, doc("The reason for waiting; `approval` means that an operator must answer.")
    ]
    resolution: Annotated[Resolution | None, doc("The result; null until the case closes.")]
    cause: Cause
    severity: Severity
    action: Action
    repair_action: Annotated[RepairAction, doc("The current repair action.")]
    attempt: Annotated[Count, doc("Number of attempts admitted so far.")]
    opened_at: datetime
    detected_at: Annotated[datetime | None, doc("When the condition behind the case started.")] = None
    answer_by: Annotated[datetime | None, doc("When an open approval request expires.")] = None
    phases: Annotated[dict[str, Milliseconds], doc("Duration of each phase by its name; empty until the case closes.")]
    previous_case: Annotated[CaseId | None, doc("The node's previous case.")]
    rule: Annotated[Text, doc("Policy rule that opened the case.")]
    policy: Annotated[Text, doc("Policy version.")]
    incarnation: Annotated[Incarnation | None, doc("Current instance and boot of the node.")] = None
    placement: Annotated[Placement | None, doc("Place of the node in its cluster.")] = None
    incident_id: Annotated[Text | UnsetType, doc("Cluster incident that absorbed the case.")] = UNSET
    relapse_of: Annotated[
        CaseId | UnsetType, doc("Case after whose repair the fault came back while the node was on probation.")
    ] = UNSET
    gpu_time_lost: Annotated[
        Milliseconds | None, doc("Number of GPUs times the time out of service; set after the case closed.")
    ] = None
    receipt: Annotated[
        Receipt | None, doc("What the case cost, and would have cost otherwise; set after the case closed.")
    ] = None


class ReplacementStepData(EventData, frozen=True, kw_only=True):
    """An outcome of one step of a repair attempt."""

    step: Annotated[Text, doc("Step name, as in the state machine; `intent` is the point of no return.")]
    outcome: Annotated[Text, doc("Result of the step. The state machine selects the next step by it.")]
    attempt: Annotated[Count, doc("Number of the attempt within the case, from 1.")]
    repair_action: RepairAction
    reason: Annotated[str | None, doc("Text from the provider, the verifier or Faultbridge.")]
    failure: Annotated[ProviderFailure | None, doc("Failure reason; null if the step succeeded.")] = None
    operation: Annotated[str | None, doc("The provider's id of the operation.")]
    old_instance: Annotated[str | None, doc("EC2 instance id of the released instance.")]
    new_instance: Annotated[str | None, doc("EC2 instance id of its successor.")]
    facts: Facts
    evidence: Evidence = UNSET
    evidence_sha256: EvidenceHash = UNSET
    evidence_uri: EvidenceUri = UNSET


class ProviderCondition(EventData, frozen=True, kw_only=True):
    """A condition that the provider reports about the whole cluster, or about one of its groups."""

    kind: ConditionKind
    group: Annotated[Text | None, doc("The group; null if the condition concerns the whole cluster.")]
    message: Annotated[str, doc("The provider's text, shortened and without secrets.")]
    since: Annotated[datetime | None, doc("When it was first recorded.")]


class ClusterStatusData(EventData, frozen=True, kw_only=True):
    """The status of a cluster after a change, and the number of its nodes by status."""

    from_: Annotated[ClusterStatus | None, doc("Null for the first event; equal to `to` if only counts changed.")] = (
        field(name="from")
    )
    to: ClusterStatus
    reason: str
    counts: Annotated[dict[str, Count], doc("Number of nodes by status; a status without nodes may be absent.")]
    expected: Annotated[
        Count, doc("Number of nodes that the cluster should have: registered ones, and those its groups lack.")
    ]
    in_service: Annotated[
        Count | None, doc("Number of nodes that jobs may run on: verified, or imported while they served.")
    ] = None
    verified: Annotated[
        Count | None,
        doc(
            "Number of nodes in service whose instance was verified. The others were imported while they "
            "served, or another controller replaced their instance where Faultbridge only observes."
        ),
    ] = None
    incidents: Annotated[tuple[Text, ...], doc("Ids of the open incidents that cause the status.")] = ()
    provider_health: Annotated[
        ProviderHealth | None, doc("Whether the provider reports conditions, and whether an operator must act on them.")
    ] = None
    provider_stage: Annotated[
        ProviderStage | None, doc("Set if this change is the one by which an operator is needed, or no longer needed.")
    ] = None
    provider_conditions: Annotated[
        tuple[ProviderCondition, ...], doc("The open conditions that the provider reports.")
    ] = ()


class Domain(EventData, frozen=True, kw_only=True):
    """A failure domain that the nodes of an incident share."""

    type: DomainKind
    name: Text


class IncidentCause(EventData, frozen=True, kw_only=True):
    """The suspected cause of a cluster incident: its origin, if one fault of a node explains those of the others."""

    code: Annotated[Text | None, doc("Fault code of the origin; while it is unknown, that of most of its nodes.")]
    node: Annotated[Text | None, doc("Node of the origin; null while it is unknown.")] = None
    component: Annotated[Component | None, doc("Component and link of the origin; null while it is unknown.")]
    text: Annotated[str, doc("One line of text for readers.")]


class ClusterIncidentData(EventData, frozen=True, kw_only=True):
    """The state of a cluster incident after a change."""

    incident_id: Text
    change: IncidentChangeKind
    from_: Annotated[IncidentStatus | None, doc("Null when the incident opens.")] = field(name="from")
    to: IncidentStatus
    reason: str
    family: Family
    cause: IncidentCause
    domain: Domain
    domain_nodes: Annotated[Count, doc("Number of nodes of the failure domain.")]
    nodes: Annotated[NodeList, doc("Nodes that are affected now.")]
    doubled: Annotated[
        bool, doc("True if its nodes doubled since its last page or notice, so that a notice follows.")
    ] = False
    finds_origin: Annotated[bool, doc("True if its origin became known, so that a notice follows.")] = False
    added: Annotated[NodeList, doc("Nodes that this change added.")]
    removed: Annotated[NodeList, doc("Nodes that this change removed.")]
    absorbed_cases: Annotated[Count, doc("Number of cases that wait for the incident instead of a repair.")]
    opened_at: datetime
    operator: Annotated[Text | None, doc("ARN of the operator who closed it.")] = None
    phases: Annotated[dict[str, Milliseconds], doc("Duration of each phase; set when the incident closes.")] = field(
        default_factory=dict
    )


class ClusterSafetyData(EventData, frozen=True, kw_only=True):
    """The state of a safety control of a cluster after a change."""

    kind: SafetyKind
    from_: Annotated[SafetyState | None, doc("Null for the first event of the control.")] = field(name="from")
    to: SafetyState
    reason: str
    scope: BreakerScope
    domain: Annotated[Text | None, doc("Failure domain, if the scope is `domain`.")]
    counts: Annotated[dict[str, Count], doc("Counts behind the decision, such as `failing`, `of`, `limit`, `holders`.")]
    until: Annotated[datetime | None, doc("When it ends or is checked again; null if only an event ends it.")]
    waiting_cases: Annotated[Count | UnsetType, doc("Number of cases that it holds.")] = UNSET
    incident_id: Annotated[
        Text | UnsetType,
        doc("Cluster incident behind a hold, or expired incident behind a breaker or a used-up budget."),
    ] = UNSET
    operator: Annotated[Text | None, doc("ARN of the operator who gave the order.")] = None
    source: Annotated[Text | UnsetType, doc("Source whose claims are accepted or damped.")] = UNSET
    failure_mode: Annotated[Text | UnsetType, doc("Failure mode whose drains are limited.")] = UNSET
    covered_by: Annotated[
        Text | UnsetType, doc("Control whose page covers this change: `breaker` or `evictions`; else null.")
    ] = UNSET


class JobImpact(EventData, frozen=True, kw_only=True):
    """A fault that affects a job, and the node that has this fault."""

    node: Text
    about: Annotated[FaultReference | None, doc("The fault, if known.")]
    message: Annotated[str | None, doc("The message of the fault.")] = None


class RankMove(EventData, frozen=True, kw_only=True):
    """The ranks of a node whose instance was replaced or is gone.

    The local state of these ranks is lost, so they must move to another instance.
    """

    node: Text
    ranks: Annotated[str | None, doc("Global ranks on the node, such as `0-7`; null if they are unknown or too many.")]
    from_instance_id: Annotated[Text | None, doc("Instance at the first fault that affected the job.")]
    to_instance_id: Annotated[Text | None, doc("Instance of the node now; null if the node left the cluster.")]


class JobResume(EventData, frozen=True, kw_only=True):
    """The nodes whose faults affected a job that may resume, by what happened to their instances."""

    returned: Annotated[NodeList, doc("Nodes that are in service again with the same instance.")]
    replaced: Annotated[NodeList, doc("Nodes that are in service with another instance.")]
    retired: Annotated[NodeList, doc("Nodes that left the cluster.")]
    moves: Annotated[
        tuple[RankMove, ...],
        doc(
            "The replaced and retired nodes with their ranks. All other ranks keep their node and instance.", MAX_LISTED
        ),
    ]


class JobCallback(EventData, frozen=True, kw_only=True):
    """The result of the delivery of a callback about a job that may resume."""

    name: Annotated[Text, doc("`webhook`, `sns`, `slurm-requeue` or `kubernetes-annotation`.")]
    delivered: Annotated[bool, doc("False if it will not be tried again.")]


class JobData(EventData, frozen=True, kw_only=True):
    """The state of a job after a change, and the details of the change."""

    job_id: Annotated[Text, doc("The scheduler's id of the job.")]
    name: str | None
    change: JobChangeKind
    reason: str
    nodes: Annotated[NodeList, doc("Nodes of the job.")]
    started_at: datetime | None
    ended_at: Annotated[datetime | None, doc("Null while the job runs.")]
    outcome: Annotated[JobOutcome | None, doc("How the job ended; null while it runs.")]
    attempt: Annotated[Count, doc("Number of this run of the job, from 1.")] = 1
    repeated_attempts: Annotated[
        Count, doc("Number of the last runs before this one that ended for the same reason without progress.")
    ] = 0
    hit: Annotated[JobImpact | None, doc("The fault and its node; set if `change` is `hit`.")]
    resume: Annotated[JobResume | None, doc("The affected nodes; set if `change` is `resumable`.")] = None
    callback: Annotated[JobCallback | UnsetType, doc("The callback; set if `change` is `notified`.")] = UNSET


class JobCheckpointData(EventData, frozen=True, kw_only=True):
    """A request to a running job to save a checkpoint, because its work on a node may be lost."""

    job_id: Annotated[Text, doc("The scheduler's id of the job.")]
    name: str | None
    checkpoint_id: Annotated[Text, doc("Id of the request, with which the job answers.")]
    deadline: Annotated[datetime, doc("When the checkpoint should be saved; a provider ends the instance then.")]
    risk: Annotated[JobImpact, doc("The fault that puts the work at risk, and its node.")]
    nodes: Annotated[NodeList, doc("Nodes of the job.")]
    started_at: datetime | None


class JobEvidence(EventData, frozen=True, kw_only=True):
    """One piece of evidence for or against the cause of a job's failure. It contains no text of logs."""

    weight: Annotated[Text, doc("Rule that gave the points; `docs/explain.md` lists them.")]
    points: Annotated[int, doc("Positive: for the cause. Negative: against it.")]
    name: Annotated[Text | None, doc("Fault code, or name of the pattern; null if the points need no line.")]
    trust: Annotated[Text | None, doc("Whose source it is: `node`, `job` or `dump`.")]
    node: Text | None
    rank: Count | None
    at: datetime | None
    file: Annotated[Text | None, doc("File, or `timeline of CLUSTER/NODE`.")]
    line: Annotated[Count | None, doc("Line of the file, or sequence number of the entry.")]


class JobDevice(EventData, frozen=True, kw_only=True):
    """A GPU that is named by the cause of a job's failure or by a Flight Recorder dump.

    Unknown values are null.
    """

    node: Text
    rank: Annotated[Count | None, doc("Global rank.")]
    index: Annotated[Count | None, doc("Index of the GPU on its node.")]
    pci: Text | None
    uuid: Text | None
    serial: Text | None
    signal: Annotated[Text, doc("Fault code, or the state of the rank in the dumps.")]


class JobExplainedData(EventData, frozen=True, kw_only=True):
    """The recorded verdict on a job: the cause of its failure, and the nodes that a restart leaves out."""

    job_id: Annotated[Text, doc("The scheduler's id of the job.")]
    name: str | None
    verdict: Outlook
    nodes: Annotated[NodeList, doc("Nodes that a restart leaves out; empty unless `RESTART_WITHOUT`.")]
    check: Annotated[NodeList, doc("Nodes to be tested before a restart.")]
    domain: Annotated[CauseDomain | None, doc("Null for an unknown cause.")]
    mechanism: Annotated[Text | None, doc("The cause; null if it is unknown.")]
    summary: str
    settles: Annotated[str, doc("What would confirm or refute the cause, or what to do.")]
    hardware: HardwareVerdict
    checked: Annotated[NodeList, doc("Nodes whose own record covers the failure.")]
    not_checked: NodeList
    ranks: Annotated[tuple[Count, ...], doc("Ranks that the others waited for, from dumps.", MAX_LISTED)]
    devices: Annotated[tuple[JobDevice, ...], doc("GPUs that the cause or the dumps name.", MAX_LISTED)]
    evidence: Annotated[tuple[JobEvidence, ...], Meta(max_length=MAX_JOB_EVIDENCE)]
    cases: Annotated[tuple[CaseId, ...], doc("Latest cases of the nodes with recorded faults.", MAX_LISTED)]
    started_at: datetime | None
    ended_at: Annotated[datetime | None, doc("Null while the job runs.")]
    failed_at: Annotated[datetime | None, doc("The first failure that the job's logs show.")]


EVENTS: Mapping[EntryType, tuple[type[EventData], str]] = {
    EntryType.FAULT_DETECTED: (FaultData, "Published when a condition starts on a node."),
    EntryType.FAULT_UPDATED: (
        FaultData,
        "Published when an active condition changes its severity, action, reporters, component or count.\n\n"
        "A growing count is published only at each power of ten.",
    ),
    EntryType.FAULT_CLEARED: (
        FaultData,
        "Published when a condition ends.\n\n"
        "The catalog lists for each fault code what ends a condition, such as a report of its end, a period "
        "without reports, a reboot of the node, or a verified repair.",
    ),
    EntryType.NODE_STATUS: (
        NodeStatusData,
        "Published when a node changes its status. Only `healthy` and `degraded` nodes are in service.",
    ),
    EntryType.CLUSTER_STATUS: (
        ClusterStatusData,
        "Published when a cluster's status, node counts, incidents or provider conditions change.",
    ),
    EntryType.CASE_STATUS: (
        CaseStatusData,
        "Published when a case opens or closes, or changes its status, its incident or its reason to wait.",
    ),
    EntryType.REPLACEMENT_STEP: (
        ReplacementStepData,
        "Published when an outcome of a step of a repair attempt is recorded.\n\n"
        "The steps include drain, intent, reset, reboot, replacement, wait for the successor, verification "
        "and return.",
    ),
    EntryType.CLUSTER_INCIDENT: (
        ClusterIncidentData,
        "Published when a cluster incident opens, grows, shrinks, expires or closes.\n\n"
        "An open incident delays the repairs of the nodes in its failure domain whose faults belong to its "
        "fault family.",
    ),
    EntryType.CLUSTER_SAFETY: (
        ClusterSafetyData,
        "Published when a safety control, which can stop repairs, changes its state.\n\n"
        "This happens when a breaker changes its state, the hourly budget is used up or available again, "
        "repairs are paused or resumed, or a failure domain is held or released.",
    ),
    EntryType.JOB: (
        JobData,
        "Published when a job starts, ends, is affected by a fault of one of its nodes, or may resume.\n\n"
        "Other changes are published too. `notified`: the delivery of a callback about a job that may resume "
        "has ended. `stalled`: the training step did not advance within the job's limit. `advanced`: the "
        "training step advances again. `loss`: the training loss is not finite, has risen suddenly, or is "
        "normal again. `checkpointed`: the job answered that it saved a requested checkpoint.",
    ),
    EntryType.JOB_CHECKPOINT: (
        JobCheckpointData,
        "Published when a job is asked to save a checkpoint, because a fault puts its work on a node at risk.\n\n"
        "A job is asked at most once in ten minutes. An event with the same id states an earlier deadline.",
    ),
    EntryType.JOB_EXPLAINED: (
        JobExplainedData,
        "Published when a verdict on a job is recorded: why the job failed, and whether it may restart.\n\n"
        "No event is published if the verdict, nodes, mechanism and hardware verdict are unchanged.",
    ),
    EntryType.NOTE: (
        NoteData,
        "Published for information that changes no status.\n\n"
        "Examples are a late fault, a refused admission, an order of an operator, and the result of a dry "
        "run. `node` is null for a note about a cluster.",
    ),
}
"""The class of the data of each event type, and the description of the event."""
