"""Routes: every route of the API as data, for the server and for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from msgspec import Struct

from faultbridge.record.history import DeviceEvent
from faultbridge.repair.jobs.reports import JobReport
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
)
from faultbridge.repair.registry.hardware_documents import Finding, Offender
from faultbridge.repair.registry.job_views import Job
from faultbridge.repair.registry.views import CasePageSent
from faultbridge.serve.api.handlers import (
    SEVERITIES,
    STATUSES,
    TYPES,
    Handler,
    Handlers,
    HardwareHandlers,
    JobHandlers,
    order_handler,
)
from faultbridge.serve.api.requests import FindingMark, Request
from faultbridge.serve.orders import ORDERS

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


_LIMIT = Parameter("limit", "Maximum number of items, 1 to 500.", kind="integer")
_TOKEN = Parameter("token", "The `next` value of the previous page, with the same parameters.", kind="token")
_C = "/clusters/{cluster}"


_Part = TypeVar("_Part", HardwareHandlers, JobHandlers)


def _of(part: Callable[[Handlers], _Part], method: Callable[[_Part, Request], Document]) -> Handler:
    @wraps(method)
    def handle(handlers: Handlers, request: Request) -> Document:
        return method(part(handlers), request)

    return handle


def _hardware(handlers: Handlers) -> HardwareHandlers:
    return handlers.hardware


def _jobs(handlers: Handlers) -> JobHandlers:
    return handlers.jobs


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
        _of(_hardware, HardwareHandlers.device_history),
    ),
    Route(
        "GET",
        f"{_C}/offenders",
        "listOffenders",
        Items[Offender],
        _of(_hardware, HardwareHandlers.offenders),
        (Parameter("since", "Only faults recorded at this time or later.", kind="instant"),),
    ),
    Route(
        "GET",
        f"{_C}/findings",
        "listFindings",
        Items[Finding],
        _of(_hardware, HardwareHandlers.findings),
        (Parameter("ended", "`true` lists findings that ended too.", allowed=("true", "false")),),
    ),
    Route("GET", f"{_C}/findings/{{finding}}", "showFinding", Finding, _of(_hardware, HardwareHandlers.finding)),
    Route(
        "POST",
        f"{_C}/findings/{{finding}}/mark",
        "markFinding",
        Finding,
        _of(_hardware, HardwareHandlers.mark_finding),
        body=FindingMark,
    ),
    Route(
        "GET",
        f"{_C}/jobs",
        "listJobs",
        Page[Job],
        _of(_jobs, JobHandlers.list),
        (Parameter("id", "Only the job with this id, which may contain `/`, such as `ml/llm`."), _LIMIT, _TOKEN),
    ),
    Route("POST", f"{_C}/jobs", "reportJob", Job, _of(_jobs, JobHandlers.report), body=JobReport),
    Route("GET", f"{_C}/jobs/{{job}}", "showJob", Job, _of(_jobs, JobHandlers.show)),
    Route("GET", f"{_C}/rejects", "listRejects", Items[Reject], Handlers.rejected, (_LIMIT,)),
    Route("GET", f"{_C}/silences", "listSilences", Items[Silence], Handlers.silences),
    *(
        Route("POST", f"{_C}{kind.path}", kind.operation, kind.response, order_handler(kind), body=kind.body)
        for kind in ORDERS.values()
    ),
)
