"""The models of responses and request bodies, for the OpenAPI document.

The server does not import them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from faultbridge.api.cluster_models import Cluster
from faultbridge.api.hardware_models import HARDWARE_MODELS
from faultbridge.api.job_models import JOB_MODELS
from faultbridge.api.node_models import Component, Count, Instant, Node, ResponseModel, ShownNode
from faultbridge.api.order_models import ApprovalAnswer, ApprovalResult, FindingMark, OrderReason
from faultbridge.domain.cases import RepairAction


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


class Case(ResponseModel):
    """A case, with the duration of each of its phases in milliseconds."""

    case_id: str
    cluster: str
    node: str
    status: str
    waiting_for: str | None
    incident: str | None
    resolution: str | None
    reason: str
    code: str
    component: Component
    severity: str
    action: str
    repair_action: str
    attempt: Count
    approval: Approval | None
    opened_at: Instant
    not_before: Instant | None
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
