"""Answers: one function a question, from a bounded request to a JSON document."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime

from faultbridge.api.requests import MAX_CHARACTERS, Request
from faultbridge.domain import names
from faultbridge.domain.cases import APPROVED, DENIED
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected
from faultbridge.ledger.page_tokens import Tokens
from faultbridge.ledger.timeline import Timeline, TimelineQuery
from faultbridge.ledger.verify import Verified, Verify
from faultbridge.ports import Clock
from faultbridge.registry.documents import (
    Document,
    case_document,
    cluster_document,
    entry_document,
    node_document,
    reject_document,
)
from faultbridge.registry.views import CaseView, Views
from faultbridge.repair.case_orders import CaseOrders, OperatorOrder
from faultbridge.storage import keys, rejects

PAGE, MAX_PAGE = 100, 500
MAX_SEQUENCE, MAX_EPOCH, MAX_ATTEMPT = 10**11, 9999, 9999
MAX_VERIFIED = 20_000
OWN_STREAM = "-"
CASE_ID = re.compile(r"c-[a-z2-7]{26}")

STATUSES = tuple(status.value for status in CaseStatus)
TYPES = tuple(entry_type.value for entry_type in EntryType)
SEVERITIES = tuple(severity.value for severity in Severity)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers questions over the services; it checks nothing about the caller, its routes have."""

    directory: Views
    timeline: Timeline
    verify: Verify
    orders: CaseOrders
    clock: Clock
    tokens: Tokens

    def clusters(self, request: Request) -> Document:
        """List every cluster."""
        request.only()
        return {"items": [cluster_document(view) for view in self.directory.clusters()]}

    def cluster(self, request: Request) -> Document:
        """Show a cluster."""
        request.only()
        return cluster_document(self.directory.cluster(request.cluster))

    def nodes(self, request: Request) -> Document:
        """List nodes by name, page by page."""
        request.only("limit", "token")
        limit, place = self._page(request, "nodes")
        seats = self.directory.page(request.cluster, place or "", limit + 1)
        more = seats[limit - 1].key.node if len(seats) > limit else None
        return self._paged(request, "nodes", [node_document(state) for state in seats[:limit]], more)

    def node(self, request: Request) -> Document:
        """Show a node."""
        request.only()
        return node_document(self.directory.node(self._node(request)))

    def cases(self, request: Request) -> Document:
        """List cases, oldest first; those that need somebody when no status is named."""
        request.only("status")
        statuses = [CaseStatus(status) for status in _chosen(request, "status", STATUSES)]
        views = self.directory.cases(request.cluster, statuses)
        return {"items": [case_document(view, self.clock.now()) for view in views]}

    def case(self, request: Request) -> Document:
        """Show a case of the cluster."""
        request.only()
        return case_document(self._case(request), self.clock.now())

    def entries(self, request: Request) -> Document:
        """Read entries in the order of recording, page by page."""
        given = ("node", "case", "device", "job", "code", "type", "severity", "since", "until")
        request.only(*given, "limit", "token")
        self.directory.cluster(request.cluster)
        since, until = _window(request)
        node = request.text("node")
        wanted = TimelineQuery(
            cluster=request.cluster,
            node=names.node_name(node) if node else None,
            case=request.text("case"),
            device=request.text("device"),
            job=request.text("job"),
            codes=request.texts("code"),
            types=_chosen(request, "type", TYPES),
            severities=_chosen(request, "severity", SEVERITIES),
            since=since,
            until=until,
        )
        scope = repr(wanted)
        limit, place = self._page(request, scope)
        lines, more = self.timeline.page(wanted, limit, place)
        return self._paged(request, scope, [entry_document(line) for line in lines], more)

    def stream(self, request: Request) -> Document:
        """Read one stream after a sequence, so that a consumer can prove and mend what it has."""
        request.only("after", "epoch", "limit")
        head = self._head(request)
        after = request.whole("after", 0, 0, MAX_SEQUENCE)
        epoch = request.whole("epoch", head[0], 1, MAX_EPOCH)
        limit = request.whole("limit", PAGE, 1, MAX_PAGE)
        lines = self.timeline.stream(request.cluster, _stream_node(request), (epoch, after), limit)
        return {"items": [entry_document(line) for line in lines], "epoch": head[0], "last": head[1]}

    def verified(self, request: Request) -> Document:
        """Verify one stream; `too_long` for one that takes longer than a request may."""
        request.only()
        if self._head(request)[1] > MAX_VERIFIED:
            raise Rejected("too_long", f"more than {MAX_VERIFIED} entries: `faultbridge verify` reads them all")
        node = _stream_node(request)
        found = self.verify(request.cluster, node) if node else self.verify.cluster_stream(request.cluster)
        return verified_document(found)

    def rejected(self, request: Request) -> Document:
        """List the records of a cluster that nobody could use, the oldest hundreds."""
        request.only("limit")
        self.directory.cluster(request.cluster)
        limit = request.whole("limit", PAGE, 1, MAX_PAGE)
        partition = keys.reject_partition(request.cluster)
        page = self.directory.table.query(partition, up_to=rejects.COUNTERS, limit=limit)
        return {"items": [reject_document(rejects.read(found)) for found in page.items]}

    def approve(self, request: Request) -> Document:
        """Let the attempt go on that waits for a person."""
        return self._answer(request, approved=True)

    def deny(self, request: Request) -> Document:
        """Refuse the attempt that waits for a person."""
        return self._answer(request, approved=False)

    def _answer(self, request: Request, *, approved: bool) -> Document:
        request.only()
        view, body = self._case(request), request.document()
        attempt, reason = body.get("attempt"), body.get("reason", "")
        if type(attempt) is not int or not 1 <= attempt <= MAX_ATTEMPT:
            raise Rejected("bad_body", "`attempt` is no whole number from 1 on")
        if not isinstance(reason, str) or len(reason) > MAX_CHARACTERS or set(body) - {"attempt", "reason"}:
            raise Rejected("bad_body", "the body has an `attempt` and may have a `reason` of 256 characters")
        answer = self.orders.approve if approved else self.orders.deny
        answer(view.case.id, OperatorOrder(request.caller.name, reason), attempt)
        return {"case_id": view.case.id, "attempt": attempt, "answer": APPROVED if approved else DENIED}

    def _page(self, request: Request, scope: str) -> tuple[int, str | None]:
        limit, token = request.whole("limit", PAGE, 1, MAX_PAGE), request.text("token")
        return limit, self.tokens.read(f"{request.cluster}\n{scope}", token) if token else None

    def _paged(self, request: Request, scope: str, items: list[Document], more: str | None) -> Document:
        token = self.tokens.sign(f"{request.cluster}\n{scope}", more) if more else None
        return {"items": items, "next": token}

    def _node(self, request: Request) -> NodeKey:
        return NodeKey(request.cluster, names.node_name(request.path["node"]))

    def _case(self, request: Request) -> CaseView:
        wanted = request.path["case"]
        view = self.directory.case(wanted) if CASE_ID.fullmatch(wanted) else None
        if view is None or view.key.cluster != request.cluster:
            raise Rejected("unknown_case", "there is no such case in this cluster")
        return view

    def _head(self, request: Request) -> tuple[int, int]:
        if _stream_node(request) is None:
            head = self.directory.cluster(request.cluster).state.head
        else:
            head = self.directory.node(self._node(request)).head
        return head.epoch, head.sequence


Answer = Callable[[Answers, Request], Document]


def verified_document(verified: Verified) -> Document:
    """Describe what a verification found."""
    return {**asdict(verified), "whole": verified.whole, "anchored": False}


def _stream_node(request: Request) -> str | None:
    node = request.path["node"]
    return None if node == OWN_STREAM else names.node_name(node)


def _window(request: Request) -> tuple[datetime | None, datetime | None]:
    since, until = request.instant("since"), request.instant("until")
    if since and until and since >= until:
        raise Rejected("bad_parameter", "since is not before until")
    return since, until


def _chosen(request: Request, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = request.texts(name)
    for one in found:
        if one not in known:
            raise Rejected("bad_parameter", f"{name} {one[:40]!r} is none of {', '.join(known)}")
    return found
