"""The models of responses and request bodies, for the OpenAPI document.

The server does not import them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import fields
from pydantic import ConfigDict, Field, create_model

from faultbridge.model.enums import RepairAction
from faultbridge.model.event_data import CaseFacts
from faultbridge.model.findings import Mark
from faultbridge.model.names import CLUSTER_NAME
from faultbridge.repair.jobs.jobs import MAX_ID_LENGTH, MAX_NODES, MAX_REASON
from faultbridge.repair.jobs.progress import MAX_STEP
from faultbridge.repair.jobs.reports import MAX_NAME, MAX_RANKS_PER_NODE, MAX_STALL, MIN_STALL
from faultbridge.serve.api.node_models import Component, Count, DeclaredDomain, Instant, Node, ResponseModel, ShownNode


class Breaker(ResponseModel):
    """A circuit breaker of repairs. The counts are those when its state last changed by itself.

    `name` is `cluster`, or `domain:` followed by the name of the failure domain.
    """

    name: str
    state: Literal["closed", "half_open", "open"]
    since: Instant
    failing: Count = Field(description="Failing nodes when the state changed.")
    of: Count = Field(description="All nodes that the breaker counts.")
    stays_open: bool = Field(description="It opened too often: it closes only by an operator while any node fails.")


class ProviderCondition(ResponseModel):
    """A condition that the provider reports about the cluster, or about one of its groups."""

    kind: str
    group: str | None
    message: str
    since: Instant | None


class Cluster(ResponseModel):
    """A cluster: its registration, its status, and the cases whose attempts count against its budget."""

    cluster: str
    status: str | None
    counts: dict[str, int]
    incidents: list[str] = Field(description="Ids of the open incidents.")
    provider_conditions: list[ProviderCondition] = Field(description="Open conditions that the provider reports.")
    target: Count = Field(description="How many nodes there should be: `expected`, and those that the groups lack.")
    domains: list[DeclaredDomain] = Field(description="Failure domains that an operator declared.")
    expected: Count
    mode: str
    repair_owner: str
    provider: str
    orchestrator: str
    verifier: str
    restarter: str
    eks_cluster: str | None
    hyperpod_cluster: str | None
    slurm_head_node: str | None
    slurm_rest: str | None = Field(description="Address of slurmrestd.")
    slurm_requeue: bool
    job_callbacks: list[str] = Field(description="Callbacks for jobs that may resume, in their order.")
    instance_types: list[str]
    subnets: list[str]
    spares: Count
    spare_group: str | None
    pool: dict[str, int]
    provider_role: str | None
    node_roles: list[str] = Field(description="Ids of the roles that prove an instance of the cluster.")
    shards: int
    policy: str | None
    version: int
    paused: bool
    maintenance_until: Instant | None
    damped_sources: dict[str, Instant] = Field(description="When the claims of a source count again, by source.")
    breakers: list[Breaker] = Field(description="Every breaker that has opened before.")
    holders: dict[str, Instant]
    no_capacity_until: dict[str, Instant] = Field(description="When a group without capacity is tried again, by group.")


class JobVerdict(ResponseModel):
    """The recorded verdict on a job: whether it may restart, and the cause of its failure."""

    outlook: str = Field(description="`RESTART`, `RESTART_WITHOUT` some nodes, or `STOP`.")
    nodes: list[str] = Field(description="Nodes that a restart leaves out.")
    mechanism: str | None = Field(description="The cause; null if it is unknown.")
    hardware: str = Field(description="`blamed`, `acquitted` or `not_shown`.")


class Job(ResponseModel):
    """A job: its nodes, the nodes whose faults affected it, and whether it may resume."""

    job_id: str
    cluster: str
    name: str | None
    nodes: list[str]
    ranks: dict[str, str] = Field(description="Global ranks by node, such as `0-7`, as far as they are known.")
    started_at: Instant
    ended_at: Instant | None
    outcome: str | None
    state: Literal["running", "stalled", "ended", "waiting", "resumable"] = Field(
        description="`waiting`: it ended less than seven days ago, its affected nodes are not back, and its verdict "
        "is not STOP. `stalled`: its step does not advance."
    )
    affected_nodes: list[str]
    stalled_at: Instant | None
    loss_alarm: str | None = Field(
        description="What is wrong with the last loss: `not_finite` or `spike`; null if nothing is."
    )
    resumable_at: Instant | None
    verdict: JobVerdict | None


class Jobs(ResponseModel):
    """A page of jobs in the order of their ids. `next` is the token of the next page, or null."""

    items: list[Job]
    next: str | None


class JobReport(ResponseModel):
    """A report that a job started, ended or reached a step.

    `start` needs `nodes`, and `heartbeat` needs `step`. The report may contain only the fields of its kind of change.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    change: Literal["start", "end", "heartbeat"]
    job_id: str = Field(min_length=1, max_length=MAX_ID_LENGTH, description="The scheduler's id of the job.")
    at: Instant | None = Field(default=None, description="`start`, `end`: when it happened. Default: now.")
    nodes: list[str] = Field(
        default=[],
        max_length=MAX_NODES,
        description="`start`: names of nodes, instance ids, or host lists such as `gpu-[001-004]`.",
    )
    name: str | None = Field(default=None, max_length=MAX_NAME, description="`start`: name of the job for people.")
    ranks: dict[str, str] | None = Field(default=None, description='`start`: global ranks by node, such as `"0-7"`.')
    ranks_per_node: int | None = Field(
        default=None, ge=1, le=MAX_RANKS_PER_NODE, description="`start`: equally many ranks, in the order of `nodes`."
    )
    stall_after_seconds: int | None = Field(
        default=None, ge=MIN_STALL, le=MAX_STALL, description="`start`: how long a step may take. Default: 1800."
    )
    outcome: Literal["succeeded", "failed", "cancelled", "unreported"] = Field(
        default="unreported", description="`end`: how the job ended."
    )
    reason: str = Field(default="", max_length=MAX_REASON, description="`end`: a few words.")
    step: int | None = Field(default=None, ge=0, le=MAX_STEP, description="`heartbeat`: last step that was completed.")
    loss: float | Literal["nan", "inf", "-inf"] | None = Field(
        default=None, description="`heartbeat`: loss of the step."
    )


class JobReportDetail(JobReport):
    """The detail of the bus event `Faultbridge Job Report`: a report, and the cluster of the job."""

    cluster: str = Field(pattern=f"^{CLUSTER_NAME.pattern}$")


JOB_MODELS = (Job, JobReport, Jobs)


class DeviceEvent(ResponseModel):
    """One event in the history of a device, such as a fault or a repair."""

    at: Instant
    kind: Literal["seen", "fault", "cleared", "case", "repair", "verdict"]
    cluster: str
    node: str
    instance_id: str | None
    slot: str | None = Field(description="The PCI address in the instance.")
    text: str
    case_id: str | None
    event_id: str | None


class DeviceEvents(ResponseModel):
    """The history of a device in one cluster, oldest first."""

    items: list[DeviceEvent]


class Trials(ResponseModel):
    """The evidence about a card or about a slot.

    `number` is how many other pairs of card and slot contain it, and `faulty` is how many of these pairs had a fault.
    """

    number: Count
    faulty: Count


class Offender(ResponseModel):
    """A device (card), and a slot in which the card had a fault.

    The card or the slot had at least two faults.
    """

    device: str
    instance_id: str
    slot: str
    faults: Count
    card: Trials = Field(description="Other slots of this card.")
    other_cards: Trials = Field(description="Other cards of this slot.")
    likelihood_ratio: float = Field(description="Of a faulty card to a faulty slot.")
    favors: Literal["card", "slot", "undetermined"]


class Offenders(ResponseModel):
    """Pairs of a device (card) and a slot with repeated severe faults.

    The pair with the most faults is first.
    """

    items: list[Offender]


class Finding(ResponseModel):
    """A node whose error counters rise far faster than those of its peers.

    `value` and `median` are per hour.
    """

    finding_id: str
    cluster: str
    node: str
    detector: str
    value: int
    median: int
    score: float = Field(description="Robust standard deviations above the median.")
    peers: Count
    opened_at: Instant
    ended_at: Instant | None
    mark: Mark | None
    marked_by: str | None
    reason: str


class Findings(ResponseModel):
    """A list of findings, oldest first."""

    items: list[Finding]


HARDWARE_MODELS = (DeviceEvents, Offenders, Finding, Findings)


class ApprovalAnswer(ResponseModel):
    """The body of an approval or a denial: which approval request it answers, and the reason.

    `attempt` and `repair_action` identify the approval request.
    """

    attempt: int = Field(ge=1, le=9999, description="The attempt of the approval request.")
    repair_action: RepairAction = Field(description="The repair action of the approval request.")
    reason: str = Field(default="", max_length=256)


class OrderReason(ResponseModel):
    """The reason for which an operator gives an order."""

    reason: str = Field(default="", max_length=256)


class FindingMark(ResponseModel):
    """An operator's mark on a finding: `right` if the node had a defect, otherwise `wrong`."""

    mark: Mark
    reason: str = Field(default="", max_length=256)


class ApprovalResult(ResponseModel):
    """The recorded answer to an approval request."""

    case_id: str
    attempt: int
    repair_action: RepairAction
    answer: Literal["approved", "denied"]


class Problem(ResponseModel):
    """The reason why a request failed, as a problem document (RFC 9457)."""

    type: str = Field(description="`urn:faultbridge:` and a stable identifier.")
    title: str
    status: int
    detail: str


class Approval(ResponseModel):
    """A request for an operator's approval of a repair action. `answer` is null until an operator answers."""

    attempt: Count
    repair_action: RepairAction
    asked_at: Instant
    answer_by: Instant
    answer: Literal["approved", "denied"] | None
    operator: str | None
    by_rule: bool = Field(description="False if the attempt asked because it found no evidence of capacity.")


def _facts_of(kind: type[Struct]) -> dict[str, Any]:
    """Return the fields of a class of the model as the fields of a response, for `create_model`."""
    found = {}
    for one in fields(kind):
        hint, *metas = get_args(one.type)
        text = next(meta.description for meta in metas if meta.description)
        found[one.name] = (Instant | None if datetime in get_args(hint) else hint, Field(description=text))
    return found


class Case(create_model("CaseFacts", __base__=ResponseModel, **_facts_of(CaseFacts))):  # type: ignore[misc]  # dynamic
    """A case, with the duration of each of its phases in milliseconds."""

    case_id: str
    cluster: str
    node: str
    status: str
    waiting_for: str | None
    incident: str | None
    resolution: str | None
    reason: str
    failure: str | None = Field(description="Failure reason of the step that failed; `reason` starts with it.")
    detail: str | None = Field(description="The end of `reason` that a step, an operator or an incident gave.")
    code: str
    component: Component
    severity: str
    action: str
    repair_action: str
    attempt: Count
    approval: Approval | None
    opened_at: Instant
    closed_at: Instant | None
    age_ms: Count
    phases: dict[str, int]
    gpu_time_lost_ms: Count | None = Field(description="GPUs times milliseconds; null if their number is unknown.")
    rule: str
    policy: str
    previous_case: str | None
    relapse_of: str | None


class CasePageSent(ResponseModel):
    """A page (notification to operators) about a case: its kind, its latest state, and when it was sent."""

    kind: str
    page_state: Literal["triggered", "resolved"]
    sent_at: Instant


class Domain(ResponseModel):
    """A failure domain: a group of nodes that a shared cause can affect, such as a rack."""

    type: str
    name: str


class Incident(ResponseModel):
    """An incident: a shared cause of the faults of many nodes, and the cases that wait for its end."""

    incident_id: str
    cluster: str
    status: str
    reason: str
    family: str
    domain: Domain
    domain_nodes: Count
    code: str
    subject: str | None
    affected: Count
    nodes: list[str]
    held_cases: dict[str, str] = Field(description="Case ids by node.")
    opened_at: Instant
    expired_at: Instant | None
    closed_at: Instant | None
    operator: str | None


class Entry(ResponseModel):
    """A timeline entry: its event without evidence, and the hash of its stored body."""

    metadata: dict[str, Any] = Field(description="As in `schemas/<event>/v1.json`.")
    data: dict[str, Any] = Field(description="As in `schemas/<event>/v1.json` of the entry's type.")
    hash: str
    late: bool = Field(description="Recorded more than two minutes after it happened.")


class Break(ResponseModel):
    """A defect of a stream: the position at which the verification of its hash chain failed, and why."""

    stream: str
    epoch: int
    sequence: int
    kind: str
    detail: str
    object: str | None


class StreamVerification(ResponseModel):
    """The result of a verification of hash chains.

    `faultbridge verify --anchor` also compares the hash chains with the anchors in the vault.
    """

    streams: Count
    entries: Count
    breaks: list[Break]
    whole: bool
    anchored: bool


class Reject(ResponseModel):
    """A rejected record: a record that ingest refused and stored for a retry."""

    record_id: str
    cluster: str
    node: str | None
    source: str
    reason: str
    detail: str
    sent_at: Instant
    rejected_at: Instant
    size: int | None


class Clusters(ResponseModel):
    """A list of all clusters."""

    items: list[Cluster]


class Nodes(ResponseModel):
    """A page of nodes. `next` is the token of the next page, or null."""

    items: list[Node]
    next: str | None


class Cases(ResponseModel):
    """A list of cases, oldest first."""

    items: list[Case]


class CasePages(ResponseModel):
    """The pages (notifications to operators) that were sent about a case, sorted by kind.

    A page is listed for 30 days after it was sent.
    """

    items: list[CasePageSent]


class Incidents(ResponseModel):
    """A list of incidents, oldest first."""

    items: list[Incident]


class Entries(ResponseModel):
    """A page of entries. `next` is the token of the next page; only the last page has null.

    A page with fewer entries than the limit is not necessarily the last page.
    """

    items: list[Entry]
    next: str | None


class Stream(ResponseModel):
    """Some entries of one stream, its current epoch, and the last sequence number of that epoch.

    The entries can be of an earlier epoch. A client that has all entries of the current epoch up to `last` has the
    complete epoch.
    """

    items: list[Entry]
    epoch: int
    last: Count


class Rejects(ResponseModel):
    """A list of rejected records, earliest sent first."""

    items: list[Reject]


MODELS = {
    model.__name__: model
    for model in (
        Problem,
        Cluster,
        Clusters,
        Node,
        Nodes,
        ShownNode,
        Incidents,
        Case,
        Cases,
        CasePages,
        Entries,
        Stream,
        StreamVerification,
        Rejects,
        ApprovalAnswer,
        ApprovalResult,
        OrderReason,
        FindingMark,
        *HARDWARE_MODELS,
        *JOB_MODELS,
    )
}
