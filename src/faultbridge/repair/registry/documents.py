"""Documents: what the API returns, as the command line, the console and the OpenAPI description use it too.

Each class is followed by the function that builds it. A field without an own value in that function has the value of
the same name in the state. Times are datetimes until `event_data.json_text` writes them. Values of vocabularies that
may grow are texts. A client ignores fields that it does not know.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Struct

from faultbridge.decide.answers import Answer, case_answer, node_answer
from faultbridge.decide.entry_builder import component_data, gpu_time_lost
from faultbridge.decide.receipt import receipt
from faultbridge.model import conditions
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.coverage import LastReport, last_report
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import ClusterStatus, RepairAction
from faultbridge.model.event_data import (
    CaseFacts,
    Component,
    Count,
    Domain,
    EventData,
    ProviderCondition,
    Receipt,
    doc,
)
from faultbridge.model.events.wire import EventDocument
from faultbridge.model.isolation import takes_work
from faultbridge.model.nodes import Incarnation, NodeState
from faultbridge.model.recorded import RecordedEvent, read_event
from faultbridge.model.storage import rejects
from faultbridge.model.times import EPOCH
from faultbridge.record.hash_chain import Break
from faultbridge.record.timeline import Line, is_late
from faultbridge.record.verify import Verified
from faultbridge.repair.registry.views import CaseView, ClusterView, IncidentView, Reports


class Document(Struct, frozen=True, kw_only=True):
    """The base of the documents of the API."""


D = TypeVar("D", bound=Struct)
N = TypeVar("N", bound="Node")
C = TypeVar("C", bound="Case")


class Items(Document, Generic[D], frozen=True, kw_only=True):
    """A list of documents; `infra/docs/api_models.py` has the description of each list."""

    items: tuple[D, ...]


class Page(Items[D], Generic[D], frozen=True, kw_only=True):
    """A page of a list; `next` is the token of the next page, or None."""

    next: str | None


def shared(kind: type[D], source: object, /, **given: Any) -> D:  # noqa: ANN401 - the values of the fields
    """Return a structure with the given values, and with the values of the same names in `source`."""
    names = (name for name in kind.__struct_fields__ if name not in given)
    return kind(**{name: getattr(source, name) for name in names}, **given)


class DeclaredDomain(Document, frozen=True, kw_only=True):
    """A failure domain that an operator declared; `nodes` is a Slurm host list."""

    type: str
    name: str
    nodes: str


class Breaker(Document, frozen=True, kw_only=True):
    """A circuit breaker of repairs. The counts are those when its state last changed by itself.

    `name` is `cluster`, or `domain:` followed by the name of the failure domain.
    """

    name: str
    state: Literal["closed", "half_open", "open"]
    since: datetime
    failing: Annotated[Count, doc("Failing nodes when the state changed.")]
    of: Annotated[Count, doc("All nodes that the breaker counts.")]
    stays_open: Annotated[bool, doc("It opened too often: it closes only by an operator while any node fails.")]


class Pause(Document, frozen=True, kw_only=True):
    """A pause of new repairs: who ordered it, why, and until when; without `until`, an order ends it."""

    by: str
    reason: str
    since: datetime
    until: datetime | None


class Silence(Document, frozen=True, kw_only=True):
    """A silence: the pages that match are not sent from `since` until `until`.

    A matcher that is null matches everything; the others are shell patterns.
    """

    id: str
    by: str
    reason: str
    since: datetime
    until: datetime
    group: str | None
    rack: Annotated[str | None, doc("Name of a failure domain of the node, of any kind.")]
    node: str | None
    mode: Annotated[str | None, doc("Failure mode.")]


class Cluster(Document, frozen=True, kw_only=True):
    """A cluster: its registration, its status, and the cases whose attempts count against its budget."""

    cluster: str
    status: Annotated[
        str | None, doc("Status; `no_nodes` without nodes, `no_data` if no node of a healthy cluster has data.")
    ]
    reporting: Annotated[Count | None, doc("Nodes whose reports arrive; null before the first sweep.")]
    never_reported: Annotated[Count | None, doc("Nodes from which no report ever arrived.")]
    no_data: Annotated[Count | None, doc("Nodes without a report for long, and without a heartbeat before.")]
    unseen_groups: Annotated[tuple[str, ...], doc("Groups from none of whose nodes a report ever arrived.")]
    counts: dict[str, int]
    incidents: Annotated[tuple[str, ...], doc("Ids of the open incidents.")]
    provider_conditions: Annotated[tuple[ProviderCondition, ...], doc("Open conditions that the provider reports.")]
    target: Annotated[Count, doc("How many nodes there should be: `expected`, and those that the groups lack.")]
    domains: Annotated[tuple[DeclaredDomain, ...], doc("Failure domains that an operator declared.")]
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
    slurm_rest: Annotated[str | None, doc("Address of slurmrestd.")]
    slurm_requeue: bool
    karpenter_repairs: Annotated[bool | None, doc("Whether Karpenter itself repairs nodes, as an operator stated.")]
    job_callbacks: Annotated[tuple[str, ...], doc("Callbacks for jobs that may resume, in their order.")]
    instance_types: tuple[str, ...]
    subnets: tuple[str, ...]
    spares: Count
    spare_group: str | None
    pool: dict[str, int]
    provider_role: str | None
    node_roles: Annotated[tuple[str, ...], doc("Ids of the roles that prove an instance of the cluster.")]
    shards: int
    policy: str | None
    version: int
    paused: bool
    pauses: Annotated[tuple[Pause, ...], doc("Who paused new repairs; they are paused while one is left.")]
    silences: Annotated[tuple[Silence, ...], doc("Silences that have not ended, also those that begin later.")]
    maintenance_until: datetime | None
    damped_sources: Annotated[dict[str, datetime], doc("When the claims of a source count again, by source.")]
    breakers: Annotated[tuple[Breaker, ...], doc("Every breaker that has opened before.")]
    holders: dict[str, datetime]
    repairs_permitted: Annotated[
        Count | None, doc("How many repairs the policy permits at a time; null in a list, and if it cannot be read.")
    ]
    no_capacity_until: Annotated[dict[str, datetime], doc("When a group without capacity is tried again, by group.")]


def cluster_document(view: ClusterView, repairs_permitted: int | None = None) -> Cluster:
    """Return a cluster as a document."""
    config, state, control, coverage = view.config, view.state, view.control, view.coverage
    return shared(
        Cluster,
        config,
        status=_shown_status(view),
        reporting=coverage.reporting if coverage else None,
        never_reported=len(coverage.never) if coverage else None,
        no_data=len(coverage.no_data) if coverage else None,
        unseen_groups=tuple(coverage.unseen) if coverage else (),
        counts=dict(state.counts),
        incidents=state.incidents,
        provider_conditions=tuple(shared(ProviderCondition, one) for one in state.provider),
        target=max(config.expected, state.target),
        domains=tuple(DeclaredDomain(type=one.kind, name=one.name, nodes=one.nodes) for one in config.domains),
        slurm_head_node=config.slurm_head_node or None,
        slurm_rest=config.slurm_rest or None,
        pool=dict(Counter(str(spare.status) for spare in view.pool)),
        provider_role=config.provider_role.arn if config.provider_role else None,
        paused=control.paused,
        pauses=tuple(shared(Pause, one, by=by) for by, one in sorted(control.pauses.items())),
        silences=silence_documents(control),
        damped_sources={one.source: one.until for one in config.damped_sources if one.cluster and not one.over},
        breakers=tuple(shared(Breaker, one, name=name) for name, one in sorted(control.breakers.items())),
        holders=dict(control.holders),
        repairs_permitted=repairs_permitted,
        no_capacity_until=dict(control.no_capacity_until),
    )


def silence_documents(control: Control) -> tuple[Silence, ...]:
    """Return the silences of a cluster, the earliest start first."""
    return tuple(shared(Silence, one) for one in sorted(control.silences.values(), key=lambda one: one.since))


def _shown_status(view: ClusterView) -> str | None:
    status, coverage = view.state.status, view.coverage
    if status not in {None, ClusterStatus.HEALTHY}:
        return status
    if not max(view.config.expected, view.state.target):
        return "no_nodes"
    return "no_data" if coverage and 0 < coverage.nodes <= len(coverage.no_data) else status


class Condition(Document, frozen=True, kw_only=True):
    """An active condition of a node: a failure that at least one source reports."""

    failure_mode: str
    code: Annotated[str, doc("Fault code of the first report.")]
    codes: Annotated[tuple[str, ...], doc("All fault codes so far under which sources reported it.")]
    because_of: Annotated[str | None, doc("Active condition that explains it, so that it needs no action.")]
    component: Component
    severity: str
    action: str
    message: str
    since: datetime
    last_at: datetime
    count: Annotated[Count, doc("Lower bound of the number of observations.")]
    reporters: tuple[str, ...]
    known_incarnation: bool


class NodeCase(Document, frozen=True, kw_only=True):
    """The live case of a node: its id and its status."""

    case_id: str
    status: str


class Probation(Document, frozen=True, kw_only=True):
    """A repaired fault that is on probation until `until`.

    If the fault returns before that time, it is repaired with the next stronger repair action.
    """

    case_id: str
    failure_mode: str
    code: str
    component: Component
    repair_action: str
    until: datetime


class Ignored(Document, frozen=True, kw_only=True):
    """The exclusion of a node from repair.

    `by` is the ARN of an operator, or `label` for an instance tag or a label of the Kubernetes node.
    """

    by: str
    since: datetime
    until: datetime | None
    reason: str


class Node(Document, frozen=True, kw_only=True):
    """A node with its instance, its active conditions and its live case."""

    cluster: str
    node: str
    status: str
    severity: str | None
    unverified: bool
    last_report: Annotated[LastReport | None, doc("Null if no report of the node ever arrived.")]
    no_data: Annotated[bool, doc("No report has arrived for ten heartbeat timeouts, and no heartbeat before.")]
    isolation: str
    ignored: Ignored | None
    instance_id: str | None
    boot_id: str | None
    instance: Count
    boot: Count
    since: datetime | None
    former_instances: tuple[str, ...]
    group: str | None
    instance_type: str | None
    domain: str | None
    domains: dict[str, str]
    aliases: tuple[str, ...]
    conditions: tuple[Condition, ...]
    devices: tuple[Component, ...]
    probations: tuple[Probation, ...]
    case: NodeCase | None
    last_case: str | None
    due_at: datetime | None
    epoch: int
    entries: Count


class ShownNode(Node, frozen=True, kw_only=True):
    """A node with its answer: what its state means, what Faultbridge does next, and what an operator should do.

    The answer is that of the live case of the node, if it has one.
    """

    answer: Answer


_NO_INSTANCE = Incarnation(instance=0, boot=0, instance_id=None, boot_id=None, since=EPOCH)


def node_document(state: NodeState, config: ClusterConfig | None = None, reports: Reports | None = None) -> Node:
    """Return a node as a document; with the configuration of its cluster, also its declared failure domains."""
    return _node(Node, state, config, reports)


def shown_node_document(
    state: NodeState, cluster: ClusterView, now: datetime, reports: Reports | None = None
) -> ShownNode:
    """Return a node as a document with its answer."""
    no_data = _has_no_data(state, reports)
    answer = node_answer(state, cluster.config, cluster.control, now, no_data=no_data)
    return _node(ShownNode, state, cluster.config, reports, answer=answer)


class Preflight(Document, frozen=True, kw_only=True):
    """Whether work may start on a node; it may not on a node that is out of service or kept from new work."""

    cluster: str
    node: str
    serves: bool
    reason: Annotated[str, doc("Why the node does not serve; empty if it does.")]
    at: datetime


def preflight_document(state: NodeState, now: datetime) -> Preflight:
    """Return whether work may start on a node now."""
    case, serves = state.live_case, takes_work(state)
    status, isolation = state.status.value if state.status else "unknown", state.isolation.value
    reason = f"status {status}, isolation {isolation}{f', case {case.id}' if case else ''}"
    return Preflight(
        cluster=state.key.cluster, node=state.key.node, serves=serves, reason="" if serves else reason, at=now
    )


def _has_no_data(state: NodeState, reports: Reports | None) -> bool:
    coverage = reports.coverage if reports else None
    return coverage is not None and state.key.node in coverage.no_data


def _node(kind: type[N], state: NodeState, config: ClusterConfig | None, reports: Reports | None, **more: Answer) -> N:
    backing, place, case = state.incarnation or _NO_INSTANCE, state.placement, state.live_case
    return shared(
        kind,
        state,
        cluster=state.key.cluster,
        node=state.key.node,
        last_report=last_report(state, reports.heartbeats.get(state.key.node) if reports else None),
        no_data=_has_no_data(state, reports),
        ignored=shared(Ignored, state.ignored) if state.ignored else None,
        instance_id=backing.instance_id,
        boot_id=backing.boot_id,
        instance=backing.instance,
        boot=backing.boot,
        since=backing.since if state.incarnation else None,
        group=place.group,
        instance_type=place.instance_type,
        domain=place.domain,
        domains={**place.domains, **(config.declared_of(state.key.node) if config else place.declared)},
        aliases=(*place.aliases, *place.host_names),
        conditions=tuple(map(_condition, state.active())),
        devices=tuple(map(component_data, state.devices)),
        probations=tuple(
            shared(Probation, one, component=component_data(one.component), failure_mode=one.mode)
            for one in state.probations
        ),
        case=NodeCase(case_id=case.id, status=case.status) if case else None,
        last_case=state.case.id if state.case else None,
        epoch=state.head.epoch,
        entries=state.head.sequence,
        **more,
    )


def _condition(one: conditions.Condition) -> Condition:
    return shared(
        Condition,
        one,
        failure_mode=one.mode,
        codes=one.reported_codes,
        component=component_data(one.component),
        reporters=tuple(sorted(one.sources)),
    )


class Approval(Document, frozen=True, kw_only=True):
    """A request for an operator's approval of a repair action. `answer` is null until an operator answers."""

    attempt: Count
    repair_action: RepairAction
    asked_at: datetime
    answer_by: datetime
    answer: Literal["approved", "denied"] | None
    operator: str | None
    by_rule: Annotated[bool, doc("False if the attempt asked because it found no evidence of capacity.")]


class Case(CaseFacts, Document, frozen=True, kw_only=True):
    """A case, with the duration of each of its phases in milliseconds."""

    case_id: str
    cluster: str
    node: str
    status: str
    waiting_for: str | None
    incident: str | None
    resolution: str | None
    reason: str
    failure: Annotated[str | None, doc("Failure reason of the step that failed; `reason` starts with it.")]
    detail: Annotated[str | None, doc("The end of `reason` that a step, an operator or an incident gave.")]
    failure_mode: str
    code: str
    component: Component
    severity: str
    action: str
    repair_action: str
    attempt: Count
    approval: Approval | None
    opened_at: datetime
    closed_at: datetime | None
    age_ms: Count
    phases: dict[str, int]
    gpu_time_lost_ms: Annotated[Count | None, doc("GPUs times milliseconds out of service; null if unknown.")]
    receipt: Annotated[Receipt | None, doc("What it cost, and would have cost otherwise; null until it closes.")]
    rule: str
    policy: str
    previous_case: str | None
    relapse_of: str | None


class ShownCase(Case, frozen=True, kw_only=True):
    """A case with its answer: what happened, what Faultbridge does next, and what an operator should do."""

    answer: Answer


def case_document(view: CaseView, now: datetime) -> Case:
    """Return a case as a document, with the duration of each phase so far in milliseconds."""
    return _case(Case, view, now)


def shown_case_document(view: CaseView, state: NodeState, cluster: ClusterView, now: datetime) -> ShownCase:
    """Return a case of a node as a document with its answer."""
    answer = case_answer(state, view.case, cluster.config, cluster.control, now)
    return _case(ShownCase, view, now, answer=answer)


def _case(kind: type[C], view: CaseView, now: datetime, **more: Answer) -> C:
    case = view.case
    lost = gpu_time_lost(case, case.closed_at or now)
    return shared(
        kind,
        case,
        case_id=case.id,
        cluster=view.key.cluster,
        node=view.key.node,
        failure=case.because.failure,
        detail=case.because.detail,
        failure_mode=case.mode,
        component=component_data(case.component),
        attempt=case.attempts,
        approval=shared(Approval, case.approval) if case.approval else None,
        age_ms=view.age(now),
        phases=view.phases(now),
        gpu_time_lost_ms=lost,
        receipt=receipt(case, lost, case.closed_at) if case.closed_at else None,
        **more,
    )


class Incident(Document, frozen=True, kw_only=True):
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
    origin: Annotated[
        str | None, doc("Node, component and code of the fault that explains the others, if it is known.")
    ]
    affected: Count
    nodes: tuple[str, ...]
    held_cases: Annotated[dict[str, str], doc("Case ids by node.")]
    opened_at: datetime
    expired_at: datetime | None
    closed_at: datetime | None
    operator: str | None


def incident_document(view: IncidentView) -> Incident:
    """Return an incident as a document: its cause, its nodes, and the cases that wait for it."""
    incident = view.incident
    return shared(
        Incident,
        incident,
        incident_id=incident.id,
        domain=Domain(type=incident.domain.kind, name=incident.domain.name),
        domain_nodes=incident.of,
        origin=incident.origin.text if incident.origin else None,
        held_cases=dict(view.held) if incident.status.holds else {},
    )


class Entry(Document, frozen=True, kw_only=True):
    """A timeline entry: its event without evidence, and the hash of its stored body."""

    metadata: Annotated[Mapping[str, object], doc("As in `schemas/<event>/v1.json`.")]
    data: Annotated[Mapping[str, object], doc("As in `schemas/<event>/v1.json` of the entry's type.")]
    hash: str
    late: Annotated[bool, doc("Recorded more than two minutes after it happened.")]

    @property
    def event(self) -> RecordedEvent[EventData | None]:
        """The event of the entry as a structure, without what this version ignores."""
        return read_event({"metadata": self.metadata, "data": self.data})


class Stream(Document, frozen=True, kw_only=True):
    """Some entries of one stream, its current epoch, and the last sequence number of that epoch.

    The entries can be of an earlier epoch. A client that has all entries of the current epoch up to `last` has the
    complete epoch.
    """

    items: tuple[Entry, ...]
    epoch: int
    last: Count


class StreamVerification(Document, frozen=True, kw_only=True):
    """The result of a verification of hash chains.

    `faultbridge verify --anchor` also compares the hash chains with the anchors in the vault.
    """

    streams: Count
    entries: Count
    breaks: tuple[Break, ...]
    whole: bool
    anchored: bool


def entry_document(line: Line) -> Entry:
    """Return a timeline entry as a document: its event without evidence, its hash, and whether it is late."""
    document: EventDocument = json.loads(line.body)
    return Entry(**document, hash=line.hash, late=is_late(read_event(document).metadata))


def verification_document(verified: Verified) -> StreamVerification:
    """Return the result of a verification of hash chains as a document."""
    return shared(StreamVerification, verified, breaks=tuple(verified.breaks), anchored=False)


class Reject(Document, frozen=True, kw_only=True):
    """A rejected record: a record that ingest refused and stored for a retry."""

    record_id: str
    cluster: str
    node: str | None
    source: str
    reason: str
    detail: str
    sent_at: datetime
    rejected_at: datetime
    size: int | None


def reject_document(reject: rejects.Reject) -> Reject:
    """Return a rejected record as a document, without the bytes of the record."""
    sent = reject.message
    return shared(Reject, reject, node=sent.node, source=sent.source, sent_at=sent.sent_at)
