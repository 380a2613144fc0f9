"""Routes: every route of the API as data, for the server and for the OpenAPI document, with its handler.

One method handles one route and returns a document.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import wraps

from msgspec import Struct

from faultbridge.model import names
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.jobs import Job as RecordedJob
from faultbridge.model.enums import CaseStatus, EntryType
from faultbridge.model.errors import FaultbridgeError, Rejected, UnknownName
from faultbridge.model.fault_enums import Severity
from faultbridge.model.findings import Finding as RecordedFinding
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey
from faultbridge.model.offenders import Odds
from faultbridge.model.policy import Policy
from faultbridge.model.storage import keys, rejects
from faultbridge.record.history import DeviceEvent, DeviceHistory
from faultbridge.record.ports.table import Clock
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.record.verify import Verify
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.repair.jobs.jobs import Jobs as RecordedJobs
from faultbridge.repair.jobs.reports import MAX_REPORT, JobReport, record_report
from faultbridge.repair.registry.documents import (
    Case,
    Cluster,
    Document,
    Entry,
    Incident,
    Items,
    Node,
    Page,
    Preflight,
    Reject,
    ShownCase,
    ShownNode,
    Silence,
    Stream,
    StreamVerification,
    case_document,
    cluster_document,
    entry_document,
    incident_document,
    node_document,
    preflight_document,
    reject_document,
    shown_case_document,
    shown_node_document,
    verification_document,
)
from faultbridge.repair.registry.hardware_documents import Finding, Offender, finding_document, offender_document
from faultbridge.repair.registry.job_views import Job, JobViews, job_document
from faultbridge.repair.registry.views import CasePageSent, CaseView, Views
from faultbridge.serve.api.requests import DEFAULT_LIMIT, MAX_LENGTH, MAX_LIMIT, FindingMark, Paging, Request
from faultbridge.serve.orders import CASE_ID, INCIDENT_ID, ORDERS, Order, OrderKind, Orders, execute, read_body

FINDING_ID = re.compile(r"f-[a-z2-7]{16}")


MAX_SEQUENCE, MAX_EPOCH = 10**11, 9999
MAX_VERIFIED_ENTRIES = 20_000
CLUSTER_STREAM = "-"

LIVE = tuple(status for status in CaseStatus if status.live)
STATUSES = tuple(status.value for status in CaseStatus)
TYPES = tuple(entry_type.value for entry_type in EntryType)
SEVERITIES = tuple(severity.value for severity in Severity)


class Handlers(Struct, frozen=True):
    """Handles API requests, one method per route. The server has checked the caller and the parameters."""

    directory: Views
    timeline: Timeline
    verify: Verify
    orders: Orders
    clock: Clock
    paging: Paging
    devices: DeviceHistory
    judgments: Judgments
    odds: Odds
    job_views: JobViews
    recorded_jobs: RecordedJobs
    policy: Callable[[ClusterConfig], Policy]

    def clusters(self, _request: Request) -> Document:
        """List all clusters."""
        return Items(items=tuple(map(cluster_document, self.directory.clusters())))

    def cluster(self, request: Request) -> Document:
        """Show a cluster: its registration, its status, and what limits its repairs."""
        view = self.directory.cluster(request.cluster)
        return cluster_document(view, self._repairs_permitted(view.config))

    def _repairs_permitted(self, config: ClusterConfig) -> int | None:
        try:
            return self.policy(config).limits.concurrent
        except FaultbridgeError as error:  # the rest of the document is still true
            log_cause("policy_not_read", reason=str(error), level=logging.WARNING, cluster=config.cluster)
            return None

    def nodes(self, request: Request) -> Document:
        """List the nodes of a cluster by name, one page at a time."""
        limit, last_node = self.paging.read(request, "nodes")
        nodes = self.directory.page(request.cluster, last_node or "", limit + 1)
        more = nodes[limit - 1].key.node if len(nodes) > limit else None
        view = self.directory.cluster(request.cluster)
        reports = self.directory.reports(view, self.clock.now())
        found = tuple(node_document(state, view.config, reports) for state in nodes[:limit])
        return Page(items=found, next=self.paging.next(request, "nodes", more))

    def node(self, request: Request) -> Document:
        """Show a node with its answer: what Faultbridge does next, and what an operator should do."""
        cluster, state = self.directory.cluster(request.cluster), self.directory.node(self._node(request))
        now = self.clock.now()
        return shown_node_document(state, cluster, now, self.directory.reports(cluster, now))

    def preflight(self, request: Request) -> Document:
        """Show whether work may start on a node; one read of the table.

        It may not on a node that is out of service, or whose isolation was requested or confirmed.
        """
        return preflight_document(self.directory.node(self._node(request)), self.clock.now())

    def cases(self, request: Request) -> Document:
        """List cases, oldest first. Without `status`, resolved and expired cases are left out.

        With `limit`, at most this number of cases is listed: those that were opened last.
        """
        statuses = [CaseStatus(status) for status in request.choices("status", STATUSES)]
        limit = request.integer("limit", 0, 1, MAX_LIMIT)
        if limit:
            views = self.directory.recent_cases(self.directory.cluster(request.cluster).config, statuses or LIVE, limit)
        else:
            views = self.directory.cases(request.cluster, statuses)
        return Items(items=tuple(case_document(view, self.clock.now()) for view in views))

    def case(self, request: Request) -> Document:
        """Show a case with its answer: what happened, what Faultbridge does next, and what an operator should do."""
        view, cluster = self._case(request), self.directory.cluster(request.cluster)
        return shown_case_document(view, self.directory.node(view.key), cluster, self.clock.now())

    def case_pages(self, request: Request) -> Document:
        """List the pages (notifications to operators) that were sent about a case, sorted by kind."""
        return Items(items=self.directory.pages(self._case(request).case.id))

    def incidents(self, request: Request) -> Document:
        """List incidents, oldest first. Closed incidents are listed only with `closed=true`."""
        views = self.directory.incidents(request.cluster, closed=request.flag("closed"))
        return Items(items=tuple(map(incident_document, views)))

    def incident(self, request: Request) -> Document:
        """Show an incident of the cluster."""
        return incident_document(self.directory.incident(_incident_id(request), request.cluster))

    def entries(self, request: Request) -> Document:
        """List timeline entries in the order of recording, one page at a time."""
        self.directory.cluster(request.cluster)
        since, until = request.window()
        node = request.text("node")
        wanted = TimelineQuery(
            cluster=request.cluster,
            node=names.node_name(node) if node else None,
            case=request.text("case"),
            device=request.text("device"),
            job=request.text("job"),
            codes=request.texts("code"),
            types=request.choices("type", TYPES),
            severities=request.choices("severity", SEVERITIES),
            since=since,
            until=until,
        )
        scope = repr(wanted)
        limit, position = self.paging.read(request, scope)
        lines, more = self.timeline.page(wanted, limit, position)
        return Page(items=tuple(map(entry_document, lines)), next=self.paging.next(request, scope, more))

    def stream(self, request: Request) -> Document:
        """List the entries of one stream after a sequence number, for consumers that miss entries.

        At most `limit` entries are listed, by default 100.
        """
        epoch, last = self._head(request)
        after = request.integer("after", 0, 0, MAX_SEQUENCE)
        wanted_epoch = request.integer("epoch", epoch, 1, MAX_EPOCH)
        limit = request.integer("limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        lines = self.timeline.stream(request.cluster, _stream_node(request), (wanted_epoch, after), limit)
        return Stream(items=tuple(map(entry_document, lines)), epoch=epoch, last=last)

    def verified(self, request: Request) -> Document:
        """Verify the hash chain of one stream.

        Raises `Rejected` (`too_long`) if the current epoch of the stream has over 20,000 entries.
        """
        if self._head(request)[1] > MAX_VERIFIED_ENTRIES:
            raise Rejected(
                "too_long", f"the stream has more than {MAX_VERIFIED_ENTRIES} entries; use `faultbridge verify`"
            )
        node = _stream_node(request)
        result = self.verify(request.cluster, node) if node else self.verify.cluster_stream(request.cluster)
        return verification_document(result)

    def device_history(self, request: Request) -> Document:
        """Show the history of a device in one cluster: its nodes, faults, repairs and verdicts, oldest first.

        Raises `UnknownName` if the cluster has no event of the device.
        """
        self.directory.cluster(request.cluster)
        events = [event for event in self.devices(request.path["device"]) if event.cluster == request.cluster]
        if not events:
            raise UnknownName("device", request.path["device"], request.cluster)
        return Items(items=tuple(events))

    def offenders(self, request: Request) -> Document:
        """List pairs of a device (card) and a slot with repeated faults of severity error or worse.

        The pair with the most faults is first. Faults recorded before `since` do not count.
        """
        self.directory.cluster(request.cluster)
        found = self.devices.offenders(request.cluster, self.odds, request.instant("since"))
        return Items(items=tuple(map(offender_document, found)))

    def findings(self, request: Request) -> Document:
        """List findings, oldest first. Findings that have ended are listed only with `ended=true`."""
        self.directory.cluster(request.cluster)
        found = self.judgments.list([request.cluster], ended=request.flag("ended"))
        return Items(items=tuple(map(finding_document, found)))

    def finding(self, request: Request) -> Document:
        """Show a finding of the cluster."""
        return finding_document(self._finding(request))

    def mark_finding(self, request: Request) -> Document:
        """Record whether a finding was right. The mark changes no case and replaces an earlier mark."""
        finding, given = self._finding(request), read_body(request.json_body(), FindingMark)
        return finding_document(self.judgments.mark(finding.id, given.mark, request.caller.name, given.reason))

    def _finding(self, request: Request) -> RecordedFinding:
        finding_id = request.path["finding"]
        found = self.judgments.find(request.cluster, finding_id) if FINDING_ID.fullmatch(finding_id) else None
        if found is None:
            raise UnknownName("finding", finding_id, request.cluster)
        return found

    def jobs(self, request: Request) -> Document:
        """List the followed jobs one page at a time; with `id`, list only this job.

        A followed job runs, or it ended and may still be reported as resumable. `id` also finds any other ended job.
        """
        self.directory.cluster(request.cluster)
        job_id = request.text("id")
        if job_id is not None:
            return Page(items=(self._job(self.job_views.job(request.cluster, job_id)),), next=None)
        limit, last_id = self.paging.read(request, "jobs")
        found, more = self.job_views.page(request.cluster, last_id, limit)
        return Page(items=tuple(map(self._job, found)), next=self.paging.next(request, "jobs", more))

    def report_job(self, request: Request) -> Document:
        """Record that a job started, ended or reached a step."""
        report = request.json_body(MAX_REPORT)
        self.directory.cluster(request.cluster)
        return self._job(record_report(self.recorded_jobs, request.cluster, report))

    def job(self, request: Request) -> Document:
        """Show one job by its id. For an id that contains `/` or `%`, use `listJobs` with `id`."""
        job_id = request.path["job"]
        if not job_id.isprintable() or len(job_id) > MAX_LENGTH:
            raise UnknownName("job", job_id[:MAX_LENGTH])
        return self._job(self.job_views.job(request.cluster, job_id))

    def _job(self, job: RecordedJob) -> Job:
        return job_document(job, self.clock.now())

    def rejected(self, request: Request) -> Document:
        """List rejected records of a cluster (refused by ingest and stored), earliest sent first.

        At most `limit` records are listed, by default 100.
        """
        self.directory.cluster(request.cluster)
        limit = request.integer("limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        partition = keys.reject_partition(request.cluster)
        page = self.directory.table.query(partition, up_to=rejects.COUNTERS, limit=limit)
        return Items(items=tuple(reject_document(rejects.read(found)) for found in page.items))

    def silences(self, request: Request) -> Document:
        """List the silences of a cluster that have not ended, the earliest start first."""
        return Items(items=cluster_document(self.directory.cluster(request.cluster)).silences)

    def _node(self, request: Request) -> NodeKey:
        return NodeKey(request.cluster, names.node_name(request.path["node"]))

    def _case(self, request: Request) -> CaseView:
        case_id = request.path["case"]
        view = self.directory.case(case_id) if CASE_ID.fullmatch(case_id) else None
        if view is None or view.key.cluster != request.cluster:
            raise UnknownName("case", case_id)
        return view

    def _head(self, request: Request) -> tuple[int, int]:
        if _stream_node(request) is None:
            head = self.directory.cluster(request.cluster).state.head
        else:
            head = self.directory.node(self._node(request)).head
        return head.epoch, head.sequence


def _incident_id(request: Request) -> str:
    incident_id = request.path["incident"]
    if not INCIDENT_ID.fullmatch(incident_id):
        raise UnknownName("incident", incident_id, request.cluster)
    return incident_id


def _stream_node(request: Request) -> str | None:
    node = request.path["node"]
    return None if node == CLUSTER_STREAM else names.node_name(node)


Handler = Callable[[Handlers, Request], Document]
_READ_METHODS = frozenset({"GET", "HEAD"})


class Parameter(Struct, frozen=True):
    """A query parameter; `kind` is its type: text, instant, integer or token.

    An instant is a date and time. A token is the `next` value of an earlier page, which selects the following page.
    If `allowed` is empty, all values are allowed.
    """

    name: str
    description: str
    kind: str = "text"
    repeatable: bool = False
    allowed: tuple[str, ...] = ()


class Route(Struct, frozen=True):
    """A route of the API.

    `response` and `body` are the classes of its response and of its request body. Only a POST route has a request body;
    `body` is None for all other routes.
    """

    method: str
    path: str
    name: str
    response: type[Document]
    handler: Handler
    parameters: tuple[Parameter, ...] = ()
    body: type[Struct] | None = None

    @property
    def in_cluster(self) -> bool:
        """Whether the route is about one cluster. Other routes require access to all clusters."""
        return "{cluster}" in self.path

    @property
    def is_write(self) -> bool:
        """Whether the route may change something. A caller with a token must be an operator to use it."""
        return self.method not in _READ_METHODS


def order_handler(kind: OrderKind) -> Handler:
    """Return the handler of a kind of order, with the description of its function."""

    @wraps(kind.give)
    def handle(handlers: Handlers, request: Request) -> Document:
        target = next((value for name, value in request.path.items() if name != "cluster"), "")
        body = read_body(request.json_body(), kind.body)
        order = Order(kind=kind.name, cluster=request.cluster, target=target, body=body)
        return execute(handlers.orders, order, request.caller.name, request.key)

    return handle


_LIMIT = Parameter("limit", "Maximum number of items, 1 to 500.", kind="integer")
_TOKEN = Parameter("token", "The `next` value of the previous page, with the same parameters.", kind="token")
_C = "/clusters/{cluster}"


ROUTES: tuple[Route, ...] = (
    Route("GET", "/clusters", "listClusters", Items[Cluster], Handlers.clusters),
    Route("GET", _C, "showCluster", Cluster, Handlers.cluster),
    Route("GET", f"{_C}/nodes", "listNodes", Page[Node], Handlers.nodes, (_LIMIT, _TOKEN)),
    Route("GET", f"{_C}/nodes/{{node}}", "showNode", ShownNode, Handlers.node),
    Route("GET", f"{_C}/nodes/{{node}}/preflight", "mayNodeServe", Preflight, Handlers.preflight),
    Route(
        "GET",
        f"{_C}/cases",
        "listCases",
        Items[Case],
        Handlers.cases,
        (
            Parameter(
                "status",
                "Only cases with this status. Default: all cases that are not resolved or expired.",
                repeatable=True,
                allowed=STATUSES,
            ),
            Parameter("limit", "Only the cases that were opened last, 1 to 500. Default: all.", kind="integer"),
        ),
    ),
    Route("GET", f"{_C}/cases/{{case}}", "showCase", ShownCase, Handlers.case),
    Route("GET", f"{_C}/cases/{{case}}/pages", "listCasePages", Items[CasePageSent], Handlers.case_pages),
    Route(
        "GET",
        f"{_C}/incidents",
        "listIncidents",
        Items[Incident],
        Handlers.incidents,
        (Parameter("closed", "`true` lists closed incidents too.", allowed=("true", "false")),),
    ),
    Route("GET", f"{_C}/incidents/{{incident}}", "showIncident", Incident, Handlers.incident),
    Route(
        "GET",
        f"{_C}/entries",
        "listEntries",
        Page[Entry],
        Handlers.entries,
        (
            Parameter("node", "Only this node."),
            Parameter("case", "Only this case."),
            Parameter("device", "Only this device, by serial number or UUID."),
            Parameter("job", "Only entries about this job."),
            Parameter("code", "Only this fault code.", repeatable=True),
            Parameter("type", "Only this event type.", repeatable=True, allowed=TYPES),
            Parameter(
                "severity",
                "Only entries with this highest severity of the node or cluster.",
                repeatable=True,
                allowed=SEVERITIES,
            ),
            Parameter("since", "Recorded at this time or later.", kind="instant"),
            Parameter("until", "Recorded before this time.", kind="instant"),
            _LIMIT,
            _TOKEN,
        ),
    ),
    Route(
        "GET",
        f"{_C}/streams/{{node}}/entries",
        "readStream",
        Stream,
        Handlers.stream,
        (
            Parameter("after", "Only entries after this sequence.", kind="integer"),
            Parameter("epoch", "Epoch of `after`. Default: the current epoch.", kind="integer"),
            _LIMIT,
        ),
    ),
    Route("GET", f"{_C}/streams/{{node}}/verify", "verifyStream", StreamVerification, Handlers.verified),
    Route(
        "GET",
        f"{_C}/devices/{{device}}/history",
        "showDeviceHistory",
        Items[DeviceEvent],
        Handlers.device_history,
    ),
    Route(
        "GET",
        f"{_C}/offenders",
        "listOffenders",
        Items[Offender],
        Handlers.offenders,
        (Parameter("since", "Only faults recorded at this time or later.", kind="instant"),),
    ),
    Route(
        "GET",
        f"{_C}/findings",
        "listFindings",
        Items[Finding],
        Handlers.findings,
        (Parameter("ended", "`true` lists findings that ended too.", allowed=("true", "false")),),
    ),
    Route("GET", f"{_C}/findings/{{finding}}", "showFinding", Finding, Handlers.finding),
    Route(
        "POST",
        f"{_C}/findings/{{finding}}/mark",
        "markFinding",
        Finding,
        Handlers.mark_finding,
        body=FindingMark,
    ),
    Route(
        "GET",
        f"{_C}/jobs",
        "listJobs",
        Page[Job],
        Handlers.jobs,
        (Parameter("id", "Only the job with this id, which may contain `/`, such as `ml/llm`."), _LIMIT, _TOKEN),
    ),
    Route("POST", f"{_C}/jobs", "reportJob", Job, Handlers.report_job, body=JobReport),
    Route("GET", f"{_C}/jobs/{{job}}", "showJob", Job, Handlers.job),
    Route("GET", f"{_C}/rejects", "listRejects", Items[Reject], Handlers.rejected, (_LIMIT,)),
    Route("GET", f"{_C}/silences", "listSilences", Items[Silence], Handlers.silences),
    *(
        Route("POST", f"{_C}{kind.path}", kind.operation, kind.response, order_handler(kind), body=kind.body)
        for kind in ORDERS.values()
    ),
)
