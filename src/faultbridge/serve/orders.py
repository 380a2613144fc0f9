"""Orders of people: one table of all orders that the API, the console, Slack and PagerDuty give, and `execute`.

An order names its kind, its cluster, what it is about, and the fields of its body. The caller of `execute` has checked
that the person may operate the cluster. The services that execute orders check everything else, as they do for the
command line, and record each order with its person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from faultbridge.model import enums, names
from faultbridge.model.cluster import silences
from faultbridge.model.enums import RepairAction
from faultbridge.model.errors import Conflict, Rejected, UnknownName
from faultbridge.model.event_data import doc, plain
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage.node_rows import RosterNode
from faultbridge.model.times import EPOCH
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Clock
from faultbridge.repair.case_orders import CaseOrders, OperatorOrder, request_key
from faultbridge.repair.controls import Controls
from faultbridge.repair.incidents import IncidentOrders
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.repair.registry.documents import (
    Case,
    Cluster,
    Document,
    Incident,
    Node,
    Silence,
    case_document,
    cluster_document,
    incident_document,
    node_document,
    shared,
)
from faultbridge.repair.registry.views import CaseView, Views

MAX_TEXT = 256
MAX_ATTEMPT = 9999
MAX_DOMAIN_NODES = 100
"""The most nodes of a failure domain that one order takes out of service or returns."""

YEARS = range(2000, 2200)
"""The years of a time in a request."""

CASE_ID = re.compile(enums.CASE_ID)
INCIDENT_ID = re.compile(r"inc-[a-z2-7]{16}")
SILENCE_ID = re.compile(r"sil-[a-z2-7]{12}")

Why = Annotated[str, Meta(max_length=MAX_TEXT), doc("Reason for the timeline, printable characters.")]
Pattern = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Instant = Annotated[datetime, Meta(tz=True)]
B = TypeVar("B", bound=Struct)


class OrderReason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason for which an operator gives an order."""

    reason: Why = ""


class Acknowledgement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The note of the person who acknowledges a case and becomes its owner."""

    note: Annotated[str, Meta(max_length=MAX_TEXT)] = ""


class ApprovalAnswer(OrderReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an approval or a denial: which approval request it answers, and the reason.

    `attempt` and `repair_action` identify the approval request.
    """

    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT), doc("The attempt of the approval request.")]
    repair_action: Annotated[RepairAction, doc("The repair action of the approval request.")]


class ReplaceOrder(OrderReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order to replace the instance of a node."""

    instance: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_TEXT),
        doc("The instance that is to be replaced; another one is never replaced."),
    ]


class PauseOrder(OrderReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order to pause new repairs of a cluster."""

    until: Annotated[Instant | None, doc("When the pause ends; null: with an order.")] = None


class ResumeOrder(OrderReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order to end a pause."""

    force: Annotated[bool, doc("True also ends the pauses of other people.")] = False


class SilenceOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order to hold matching pages. Each matcher that is given must match; they are shell patterns (`gpu-*`)."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT), doc("Reason for the timeline.")]
    until: Annotated[Instant, doc("When it ends, at most 30 days from now.")]
    since: Annotated[Instant | None, doc("When it begins; null: now.")] = None
    group: Annotated[Pattern | None, doc("Instance group of the node.")] = None
    rack: Annotated[Pattern | None, doc("Name of a failure domain of the node, of any kind.")] = None
    node: Annotated[Pattern | None, doc("Name of the node.")] = None
    mode: Annotated[Pattern | None, doc("Failure mode.")] = None


class NodeResult(Struct, frozen=True, kw_only=True):
    """What became of an order for one node of a failure domain; `refused` is the reason, or null."""

    node: str
    accepted: bool
    refused: str | None


class DomainOrder(Document, frozen=True, kw_only=True):
    """What became of an order for all nodes of a failure domain. The nodes that accepted it follow it."""

    cluster: str
    domain: str
    accepted: Annotated[bool, doc("True if every node accepted the order.")]
    nodes: tuple[NodeResult, ...]


class Orders(Struct, frozen=True):
    """The services that execute orders, and the views of their results."""

    directory: Views
    cases: CaseOrders
    nodes: NodeOrders
    controls: Controls
    incidents: IncidentOrders
    clock: Clock


class Given(Struct, frozen=True):
    """An order as its function gets it: where, about what, with which body, and from whom."""

    cluster: str
    target: str
    body: Any
    order: OperatorOrder


class Order(Struct, frozen=True, kw_only=True):
    """An order of a person: a name of `ORDERS`, the cluster, what it is about, and its body.

    `target` is the id of a case, incident or silence, or the name of a node or failure domain; "" for a cluster.
    """

    kind: str
    cluster: str
    target: str = ""
    body: Struct


def order_of(kind: str, cluster: str, target: str = "", fields: Mapping[str, object] | None = None) -> Order:
    """Return an order from the fields of its body as texts or JSON values; raises Rejected `bad_body`."""
    return Order(kind=kind, cluster=cluster, target=target, body=read_body(fields or {}, ORDERS[kind].body))


def read_body(fields: Mapping[str, object], kind: type[B]) -> B:
    """Return the body of a class; other fields, values and unprintable text raise Rejected `bad_body`."""
    try:
        body = msgspec.convert(dict(fields), kind)
    except msgspec.ValidationError as error:
        raise Rejected("bad_body", f"invalid body: {error}") from None
    for name, value in asdict(body).items():
        if isinstance(value, str) and not value.isprintable():
            raise Rejected("bad_body", f"invalid body: `{name}` has characters that cannot be printed")
        if isinstance(value, datetime) and value.year not in YEARS:
            raise Rejected("bad_body", f"invalid body: `{name}` is not in the years {YEARS[0]} to {YEARS[-1]}")
    return body


def execute(orders: Orders, order: Order, person: str, key: str | None = None) -> Document:
    """Execute an order of a person, and return the document of what it changed.

    With `key`, a repetition by the same person returns the present document and changes nothing. Raises Rejected with
    the reason of a refusal, and `key_reused` if the person used the key for another order.
    """
    kind = ORDERS[order.kind]
    written = {"kind": kind.name, "cluster": order.cluster, "target": order.target, "body": _json(order.body)}
    request = request_key(person, key, written) if key else None
    reason = str(getattr(order.body, "reason", getattr(order.body, "note", "")))
    return kind.give(orders, Given(order.cluster, order.target, order.body, OperatorOrder(person, reason, request)))


def _json(body: Struct) -> object:
    return {name: value if isinstance(value, bool | int) else str(value) for name, value in plain(body).items()}


def _case(orders: Orders, given: Given) -> CaseView:
    view = orders.directory.case(given.target) if CASE_ID.fullmatch(given.target) else None
    if view is None or view.key.cluster != given.cluster:
        raise UnknownName("case", given.target)
    return view


def _case_now(orders: Orders, given: Given) -> Case:
    return case_document(orders.directory.case(given.target), orders.clock.now())


def acknowledge(orders: Orders, given: Given) -> Case:
    """Acknowledge a case: the person owns it, and urgent pages about it are not repeated. Repairs continue."""
    orders.cases.acknowledge(_case(orders, given).case.id, given.order)
    return _case_now(orders, given)


def approve(orders: Orders, given: Given) -> Case:
    """Approve the repair attempt for which a case requires approval."""
    case = _case(orders, given).case.id
    orders.cases.approve(case, given.order, given.body.attempt, given.body.repair_action)
    return _case_now(orders, given)


def deny(orders: Orders, given: Given) -> Case:
    """Deny the repair attempt for which a case requires approval."""
    case = _case(orders, given).case.id
    orders.cases.deny(case, given.order, given.body.attempt, given.body.repair_action)
    return _case_now(orders, given)


def cancel(orders: Orders, given: Given) -> Case:
    """Cancel a case, so that no instance is released for it. After its intent, a repair cannot be canceled."""
    orders.cases.cancel(_case(orders, given).case.id, given.order)
    return _case_now(orders, given)


def _node(given: Given) -> NodeKey:
    return NodeKey(given.cluster, names.node_name(given.target))


def replace_node(orders: Orders, given: Given) -> Node:
    """Order the replacement of an instance. It starts as soon as all limits of repairs permit it."""
    return node_document(orders.nodes.replace(_node(given), given.order, given.body.instance))


def quarantine(orders: Orders, given: Given) -> Node:
    """Keep new work off a node until it is returned or replaced. Work that runs there continues."""
    return node_document(orders.nodes.quarantine(_node(given), given.order))


def return_node(orders: Orders, given: Given) -> Node:
    """Return a node to service after it was fixed. If it is out of service, it is verified first."""
    return node_document(orders.nodes.return_node(_node(given), given.order))


def _domain_nodes(orders: Orders, given: Given) -> tuple[NodeKey, ...]:
    config = orders.directory.cluster(given.cluster).config

    def is_inside(row: RosterNode) -> bool:
        return not row.retired and any(given.target == one.name for one in row.failure_domains(config))

    inside = sorted(row.node for row in orders.directory.roster(config) if is_inside(row))
    if not inside:
        raise UnknownName("domain", given.target, given.cluster)
    if len(inside) > MAX_DOMAIN_NODES:
        text = f"{given.target} has {len(inside)} nodes; one order is for at most {MAX_DOMAIN_NODES}"
        raise Rejected("too_many", text)
    return tuple(NodeKey(given.cluster, name) for name in inside)


def _to_domain(orders: Orders, given: Given, give: Callable[[NodeKey, OperatorOrder], object]) -> DomainOrder:
    results, request, table = [], given.order.request, orders.directory.table
    nodes = _domain_nodes(orders, given)
    if request and not request.is_executed(table):
        with suppress(Conflict):  # the same order at the same time: each node follows it once
            table.write(request.executed(orders.clock.now()))
    for key in nodes:
        own = replace(request, token=f"{request.token}/{key.node}") if request else None
        refused = None
        try:
            give(key, replace(given.order, request=own))
        except Rejected as error:
            refused = error.detail or error.reason
        results.append(NodeResult(node=key.node, accepted=refused is None, refused=refused))
    return DomainOrder(
        cluster=given.cluster,
        domain=given.target,
        accepted=all(one.accepted for one in results),
        nodes=tuple(results),
    )


def maintain_domain(orders: Orders, given: Given) -> DomainOrder:
    """Quarantine each node of a failure domain, such as a rack, for maintenance. Work that runs there continues."""
    return _to_domain(orders, given, orders.nodes.quarantine)


def return_domain(orders: Orders, given: Given) -> DomainOrder:
    """Return each node of a failure domain to service after maintenance; each is verified first."""
    return _to_domain(orders, given, orders.nodes.return_node)


def _cluster_now(orders: Orders, given: Given) -> Cluster:
    return cluster_document(orders.directory.cluster(given.cluster))


def pause(orders: Orders, given: Given) -> Cluster:
    """Pause new repairs of a cluster. Repairs that run continue."""
    orders.controls.pause(given.cluster, given.order, given.body.until)
    return _cluster_now(orders, given)


def resume(orders: Orders, given: Given) -> Cluster:
    """End the person's own pause of a cluster; with `force`, those of all people."""
    orders.controls.resume(given.cluster, given.order, force=given.body.force)
    return _cluster_now(orders, given)


def add_silence(orders: Orders, given: Given) -> Silence:
    """Hold the pages that match until a time. Faults, events and repairs continue."""
    body: SilenceOrder = given.body
    wanted = shared(silences.Silence, body, id="", by="", since=body.since or EPOCH, unknown_attributes=None)
    return shared(Silence, orders.controls.silence(given.cluster, given.order, wanted))


def end_silence(orders: Orders, given: Given) -> Cluster:
    """End a silence before its time."""
    if not SILENCE_ID.fullmatch(given.target):
        raise UnknownName("silence", given.target, given.cluster)
    orders.controls.end_silence(given.cluster, given.target, given.order)
    return _cluster_now(orders, given)


def close_incident(orders: Orders, given: Given) -> Incident:
    """Close an incident. The cases that wait for the incident are then released, oldest first."""
    if not INCIDENT_ID.fullmatch(given.target):
        raise UnknownName("incident", given.target, given.cluster)
    found = orders.directory.incident(given.target, given.cluster).incident.id
    orders.incidents.close(given.cluster, found, given.order)
    return incident_document(orders.directory.incident(found, given.cluster))


class OrderKind(Struct, frozen=True):
    """One kind of order: its name, its path below a cluster, its id in OpenAPI, and the classes of its body and result.

    The last name in braces of the path is the target of the order.
    """

    name: str
    path: str
    operation: str
    body: type[Struct]
    response: type[Document]
    give: Callable[[Orders, Given], Document]


ORDERS: Mapping[str, OrderKind] = {
    kind.name: kind
    for kind in (
        OrderKind("ack", "/cases/{case}/ack", "acknowledgeCase", Acknowledgement, Case, acknowledge),
        OrderKind("approve", "/cases/{case}/approve", "approveCase", ApprovalAnswer, Case, approve),
        OrderKind("deny", "/cases/{case}/deny", "denyCase", ApprovalAnswer, Case, deny),
        OrderKind("cancel", "/cases/{case}/cancel", "cancelCase", OrderReason, Case, cancel),
        OrderKind("replace", "/nodes/{node}/replace", "replaceNode", ReplaceOrder, Node, replace_node),
        OrderKind("quarantine", "/nodes/{node}/quarantine", "quarantineNode", OrderReason, Node, quarantine),
        OrderKind("cordon", "/nodes/{node}/cordon", "cordonNode", OrderReason, Node, quarantine),
        OrderKind("return", "/nodes/{node}/return", "returnNode", OrderReason, Node, return_node),
        OrderKind(
            "maintain-domain", "/domains/{domain}/maintain", "maintainDomain", OrderReason, DomainOrder, maintain_domain
        ),
        OrderKind("return-domain", "/domains/{domain}/return", "returnDomain", OrderReason, DomainOrder, return_domain),
        OrderKind("pause", "/pause", "pauseRepairs", PauseOrder, Cluster, pause),
        OrderKind("resume", "/resume", "resumeRepairs", ResumeOrder, Cluster, resume),
        OrderKind("silence", "/silences", "addSilence", SilenceOrder, Silence, add_silence),
        OrderKind("end-silence", "/silences/{silence}/end", "endSilence", OrderReason, Cluster, end_silence),
        OrderKind(
            "close-incident", "/incidents/{incident}/close", "closeIncident", OrderReason, Incident, close_incident
        ),
    )
}
"""Every order that a person can give outside of the command line, by name."""
