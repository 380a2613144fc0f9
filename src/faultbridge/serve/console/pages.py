"""Pages: builds the page of each console path as HTML, its documents as JSON, or its entries as CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus

from msgspec import Struct, field, to_builtins

from faultbridge.model import names
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected, UnknownName
from faultbridge.model.event_data import json_text
from faultbridge.model.safe_text import visible
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.repair.registry.views import CaseView
from faultbridge.serve.api.problems import problem_of
from faultbridge.serve.api.requests import ALL_CLUSTERS, Request
from faultbridge.serve.console.facts import WEEK, Facts, Window, gpus, meaning
from faultbridge.serve.console.html import SCRIPT, STYLE, Links, by_hashed_name, render
from faultbridge.serve.console.orders import FORMS, LENGTHS, Fields, OrderForms, Subject
from faultbridge.serve.orders import CASE_ID, INCIDENT_ID, ORDERS
from faultbridge.serve.presentation.case_page import case_page
from faultbridge.serve.presentation.cluster_page import DAY, cluster_page
from faultbridge.serve.presentation.entry_rows import Entries, EntryRow, documents_of, entry_rows
from faultbridge.serve.presentation.fleet_page import fleet_page
from faultbridge.serve.presentation.history import Span
from faultbridge.serve.presentation.incident_page import incident_page
from faultbridge.serve.presentation.job_page import job_page
from faultbridge.serve.presentation.node_page import node_page

HTML, CSV, JSON = "text/html; charset=utf-8", "text/csv; charset=utf-8", "application/json"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy: only own files, no inline script or style, no other host, no frame."""

SECURITY: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
REVALIDATE = "private, no-cache"
IMMUTABLE = "private, max-age=31536000, immutable"


def entity_tag(version: str) -> str:
    """Return the weak entity tag (HTTP `ETag`) of a text that changes when the page shows another state."""
    return f'W/"{hashlib.sha256(version.encode()).hexdigest()[:32]}"'


class Content(Struct, frozen=True):
    """A response, which a browser saves as `file_name`, if set; equal tags show the same state but for ages.

    `packed` is the body of a response that is not text.
    """

    text: str
    media_type: str = HTML
    status: HTTPStatus = HTTPStatus.OK
    cache: str = REVALIDATE
    file_name: str | None = None
    tag: str = ""
    location: str = ""
    packed: bytes = b""

    @property
    def body(self) -> bytes:
        """Return the bytes of the response."""
        return self.packed or self.text.encode()

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of the response, security headers included."""
        attachment = {"Content-Disposition": f'attachment; filename="{self.file_name}"'} if self.file_name else {}
        return {
            **({"Location": self.location} if self.location else {}),
            **SECURITY,
            "Content-Type": self.media_type,
            "Cache-Control": self.cache,
            "ETag": self.tag or entity_tag(self.text),
            **attachment,
        }

    def not_modified(self, if_none_match: str) -> bool:
        """Return whether the client already has this content, by its entity tags; never for an error."""
        named = {one.strip() for one in if_none_match.split(",")}
        return self.status is HTTPStatus.OK and (self.tag or entity_tag(self.text)) in named


FORMATS = ("html", "json", "csv")
MAX_CASE_FILE = 4_000_000
"""The largest case file in bytes that fits into the response of a function, with its encoding."""

SECONDS_LIVE, SECONDS_QUIET = 10, 60
"""Seconds after which an open page checks for changes: the first value if the page is live, else the second."""

PRESETS = (("1 hour", timedelta(hours=1)), ("24 hours", timedelta(hours=24)), ("7 days", WEEK))
MINUTE = timedelta(minutes=1)


class PageData(Struct, frozen=True):
    """The data of one page: template and values, documents for JSON, entries for CSV, the file's name."""

    template: str
    values: dict[str, object]
    documents: Mapping[str, object]
    entries: Entries
    name: str
    live: bool


class Pages(Struct, frozen=True):
    """Answers the requests of authenticated callers, and checks that they may access the cluster."""

    facts: Facts
    links: Links = field(default_factory=Links)
    forms: OrderForms | None = None
    case_files: Callable[[CaseView], bytes] | None = None

    def __call__(self, path: str, request: Request) -> Content:
        """Return the content for a path below `/console`; a `FaultbridgeError` becomes a page."""
        try:
            return self._content(path.strip("/"), request)
        except FaultbridgeError as error:
            return self.error(error)

    def error(self, error: FaultbridgeError) -> Content:
        """Return a page about an error, without internal details."""
        status, document = problem_of(error)
        text = render("error.html", self.links, title=status.phrase, problem=document)
        return Content(text, status=status, cache="no-store")

    def internal_error(self) -> Content:
        """Return a page about an unexpected error."""
        return self.error(Misconfigured("a bug"))

    def _content(self, path: str, request: Request) -> Content:
        if path.startswith("assets/"):
            found = by_hashed_name(path.removeprefix("assets/"))
            if found is None:
                raise Rejected("unknown_route", "no such file; reload the page")
            return Content(found.text, found.media_type, cache=IMMUTABLE)
        if self.forms and (order := _ORDER.fullmatch(path)):
            return self._form(self.forms, order["kind"], replace(request, path={"cluster": order["cluster"]}))
        if self.case_files and (wanted := _CASE_FILE.fullmatch(path)):
            return self._case_file(self.case_files, wanted["cluster"], wanted["case"], request)
        for pattern, build in _ROUTES:
            matched = pattern.fullmatch(path)
            if matched:
                return self._page(build, Request({**matched.groupdict()}, request.query, caller=request.caller))
        raise Rejected("unknown_route", "no such page; start at /console")

    def _form(self, forms: OrderForms, kind: str, request: Request) -> Content:
        """Return the page that names the effect of an order, with the form that gives it."""
        request.check_parameters("target")
        form, subject = forms.subject(request, kind)
        text = render(
            "order.html",
            self.links,
            form=form,
            subject=subject,
            effect=form.effect(subject),
            lengths=LENGTHS,
            person=request.caller.name,
            token=forms.token(request.caller, kind, subject),
            action=self.links.order(request.cluster, kind, request.text("target") or ""),
            back=self._back(subject),
        )
        return Content(text, cache="no-store")

    def post(self, path: str, request: Request, fields: Fields, headers: Mapping[str, str]) -> Content:
        """Give the order of a posted form, and return a redirection to the page of what it is about."""
        try:
            found = _ORDER.fullmatch(path.strip("/"))
            if found is None or self.forms is None:
                raise Rejected("unknown_route", "no such order")
            request = replace(request, path={"cluster": found["cluster"]})
            subject = self.forms.give(request, found["kind"], fields, headers)
            return Content("", status=HTTPStatus.SEE_OTHER, cache="no-store", location=self._back(subject))
        except FaultbridgeError as error:
            return self.error(error)

    def _case_file(self, collect: Callable[[CaseView], bytes], cluster: str, case_id: str, request: Request) -> Content:
        """Return the case file of a case, which `faultbridge case file` writes too."""
        request.caller.check(names.cluster_name(cluster))
        view = self.facts.views.case(case_id) if CASE_ID.fullmatch(case_id) else None
        if view is None or view.key.cluster != cluster:
            raise UnknownName("case", case_id)
        packed = collect(view)
        if len(packed) > MAX_CASE_FILE:
            raise Rejected("too_long", f"too large for a response: run 'faultbridge case file {case_id}'")
        return Content("", "application/zip", cache="no-store", file_name=f"{case_id}.zip", packed=packed)

    def _back(self, subject: Subject) -> str:
        """Return the address of the page of what an order is about."""
        cluster = subject.cluster
        if subject.case:
            return self.links.case(cluster, subject.case.case_id)
        return self.links.node(cluster, subject.node.node) if subject.node else self.links.cluster(cluster)

    def _page(self, build: Callable[[Pages, Request], PageData], request: Request) -> Content:
        if "cluster" in request.path:
            request.caller.check(names.cluster_name(request.path["cluster"]))
        request.check_parameters("since", "until", "format", "q", "type", *(("id",) if build is Pages.job else ()))
        wanted = (request.choices("format", FORMATS) or ("html",))[-1]
        data = build(self, request)
        if wanted == "json":
            return Content(json_text(data.documents, indent=2), JSON, file_name=f"{data.name}.json")
        if wanted == "csv":
            return Content(entries_csv(entry_rows(data.entries)), CSV, file_name=f"{data.name}.csv")
        since, until = request.window()
        seconds = 0 if until else SECONDS_LIVE if data.live else SECONDS_QUIET
        operates = self.forms is not None and request.caller.operates(request.path.get("cluster"))
        tag = entity_tag(f"{operates}{self._version(data)}")
        values = {
            "operates": operates,
            "forms": BUTTONS if operates else {},
            "since": since,
            "until": until,
            "refresh": seconds,
            "version": tag,
        } | data.values
        values["presets"] = [(text, self._now(()) - length) for text, length in PRESETS]
        return Content(render(data.template, self.links, **values), tag=tag)

    def _version(self, data: PageData) -> str:
        """Return the text of a page's entity tag; that of a live page also changes every minute."""
        minute = f"{self.facts.clock.now():%Y-%m-%dT%H:%M}" if data.live else ""
        return json_text(
            [
                _without_ages(to_builtins(data.documents, builtin_types=(datetime,))),
                minute,
                self.links.asset(STYLE),
                self.links.asset(SCRIPT),
            ]
        )

    def fleet(self, request: Request) -> PageData:
        """Return the fleet page, with the clusters that the caller may access."""
        allowed = request.caller.clusters
        found = self.facts.fleet(None if allowed is None or ALL_CLUSTERS in allowed else allowed)
        page = fleet_page(found, gpus(), self.facts.clock.now() - WEEK)
        documents = {
            "clusters": [one.cluster for one in found],
            "gpu_hours_lost": None if page.gpu_hours_lost is None else round(page.gpu_hours_lost, 1),
            "needs_you": page.needs,
        }
        return PageData("fleet.html", {"page": page}, documents, (), "fleet", page.live)

    def cluster(self, request: Request) -> PageData:
        """Return the page of a cluster for a time window."""
        window = request.window()
        facts = self.facts.cluster(request.cluster, window)
        now = self._now(facts.entries)
        until = min(window[1], now) if window[1] else now
        page = cluster_page(facts, Span(window[0] or until - DAY, until, running=until == now))
        documents = {
            "cluster": facts.cluster,
            "live_cases": facts.live_cases,
            "closed_cases": facts.closed_cases,
            "incidents": facts.incidents,
            "jobs": facts.jobs,
            "limits": facts.limits,
            "entries": documents_of(facts.entries),
        }
        return PageData("cluster.html", {"page": page}, documents, facts.entries, request.cluster, page.live)

    def node(self, request: Request) -> PageData:
        """Return the page of a node for a time window."""
        window, node = request.window(), names.node_name(request.path["node"])
        found = self.facts.node(request.cluster, node, window)
        span = self._span(window, found.entries)
        jobs, followed, case = found.jobs, found.followed, found.case
        page = node_page(
            found.document, found.entries, span, older=found.older, jobs=jobs, followed=followed, case=case
        )
        documents = {"node": found.document, "jobs": found.jobs, "entries": documents_of(found.entries)}
        return PageData("node.html", {"page": page}, documents, found.entries, f"{request.cluster}-node", page.live)

    def case(self, request: Request) -> PageData:
        """Return the page of a case."""
        case_id = request.path["case"]
        if not CASE_ID.fullmatch(case_id):
            raise UnknownName("case", case_id)
        facts = self.facts.case(request.cluster, case_id)
        page = case_page(facts, self._now(facts.entries))
        listed = documents_of(facts.entries)
        documents = {"case": facts.case, "node": facts.node, "pages": facts.pages, "entries": listed}
        return PageData("case.html", {"page": page}, documents, facts.entries, case_id, page.live)

    def job(self, request: Request) -> PageData:
        """Return the page of a job."""
        found = self.facts.job(request.cluster, request.text("id") or "")
        page = job_page(found.document, found.entries, self._now(found.entries), older=found.older)
        documents = {"job": found.document, "entries": documents_of(found.entries)}
        return PageData("job.html", {"page": page}, documents, found.entries, f"{request.cluster}-job", page.live)

    def incident(self, request: Request) -> PageData:
        """Return the page of an incident."""
        incident_id = request.path["incident"]
        if not INCIDENT_ID.fullmatch(incident_id):
            raise UnknownName("incident", incident_id, request.cluster)
        found, cluster, nodes = self.facts.incident(request.cluster, incident_id)
        page = incident_page(
            found.document,
            cluster,
            nodes,
            found.entries,
            self._now(found.entries),
            older=found.older,
            meaning=meaning(found.document.code),
        )
        documents = {"incident": found.document, "entries": documents_of(found.entries)}
        return PageData("incident.html", {"page": page}, documents, found.entries, incident_id, page.live)

    def _now(self, entries: Entries) -> datetime:
        """Return the current minute, in which a page's text stays equal, or a later recording time."""
        minute = self.facts.clock.now().replace(second=0, microsecond=0)
        return max([minute, *(one.metadata.recorded_at for one in entries)])

    def _span(self, window: Window, entries: Entries) -> Span:
        """Return the span of a window: it ends now at the latest, and starts at the first of `entries`."""
        since, until = window
        now = self._now(entries)
        first = min((one.at for one in entries), default=now - MINUTE)
        return Span(since or first, min(until, now) if until else now, running=until is None or until >= now)


def _without_ages(document: object) -> object:
    if isinstance(document, Mapping):
        return {name: _without_ages(value) for name, value in document.items() if name not in _AGES}
    return [_without_ages(one) for one in document] if isinstance(document, list | tuple) else document


_AGES = frozenset({"age_ms", "phases", "gpu_time_lost_ms"})
_C = r"clusters/(?P<cluster>[^/]+)"
_CASE_FILE = re.compile(rf"{_C}/cases/(?P<case>[^/]+)/file")
_ROUTES: tuple[tuple[re.Pattern[str], Callable[[Pages, Request], PageData]], ...] = (
    (re.compile(""), Pages.fleet),
    (re.compile(_C), Pages.cluster),
    (re.compile(rf"{_C}/nodes/(?P<node>[^/]+)"), Pages.node),
    (re.compile(rf"{_C}/cases/(?P<case>[^/]+)"), Pages.case),
    (re.compile(rf"{_C}/jobs"), Pages.job),
    (re.compile(rf"{_C}/incidents/(?P<incident>[^/]+)"), Pages.incident),
)
BUTTONS = {ORDERS[kind].operation: (kind, form) for kind, form in FORMS.items()}
"""The orders with a button, by their operation in the API, with which the table of answers names them."""

_ORDER = re.compile(rf"{_C}/orders/(?P<kind>[a-z-]+)")


COLUMNS = ("occurred_at", "stream", "epoch", "sequence", "event_type", "what", "why", "late", "event_id", "hash")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def entries_csv(rows: Iterable[EntryRow]) -> str:
    """Return entries as CSV with a header line; no cell starts a formula or has control characters."""
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(COLUMNS)
    for row in rows:
        of, document = row.entry.metadata, row.entry.document
        cells = (to_text(row.at), of.stream, of.epoch, of.sequence, of.event_type, row.what, row.why,
                 str(document.late).lower(), of.event_id, document.hash)  # fmt: skip
        writer.writerow([_cell(str(one)) for one in cells])
    return output.getvalue()


def _cell(text: str) -> str:
    """Return the text of a cell; an apostrophe precedes text that a spreadsheet would run as a formula."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULAS) else shown
