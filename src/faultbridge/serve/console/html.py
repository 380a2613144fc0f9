"""HTML: renders templates, escapes their values, and makes control characters visible."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from faultbridge.model.enums import CASE_ID
from faultbridge.model.safe_text import visible
from faultbridge.model.times import to_text
from faultbridge.record.entry_text import component_text, duration_text
from faultbridge.serve.presentation.case_page import PAGE_TEXTS, case_mark, case_reason
from faultbridge.serve.presentation.job_page import job_state
from faultbridge.serve.presentation.tones import SEVERITY, VERDICT, mark

ASSETS = Path(__file__).parent / "assets"
STYLE, SCRIPT, ICON = "console.css", "console.js", "icon.svg"
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(Struct, frozen=True):
    """A style sheet, script or icon that pages load."""

    name: str
    text: str

    @property
    def media_type(self) -> str:
        """Return the media type of the file, for the header `Content-Type`."""
        return _MEDIA_TYPES[Path(self.name).suffix]

    @property
    def hashed_name(self) -> str:
        """Return the file name with a hash of the text. Browsers may cache a file of this name forever."""
        stem, suffix = self.name.rsplit(".", 1)
        return f"{stem}-{hashlib.sha256(self.text.encode()).hexdigest()[:12]}.{suffix}"

    @property
    def source_hash(self) -> str:
        """Return the hash that a content security policy lists to allow this text inside a page."""
        return f"sha256-{base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode()}"


@cache
def asset(name: str) -> Asset:
    """Return the style sheet, script or icon with this file name."""
    return Asset(name, (ASSETS / name).read_text(encoding="utf-8"))


def by_hashed_name(name: str) -> Asset | None:
    """Return the asset with this hashed name; None if the name is unknown or of an earlier version."""
    return next((one for one in map(asset, (STYLE, SCRIPT, ICON)) if one.hashed_name == name), None)


TEMPLATES = Path(__file__).parent / "templates"
BASE = "/console"
_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d(?: UTC)?"
_ID = re.compile(rf"\b(i-[0-9a-f]{{8,17}}|{CASE_ID}|inc-[a-z2-7]{{16}}|{_TIME})\b")
SHOWN = 8
"""Characters of the id of a case or of an incident that a link shows."""


class Links(Struct, frozen=True):
    """The addresses of pages below `base`; None, as in a report file, gives no links. `runbooks` is their base URL."""

    base: str | None = BASE
    runbooks: str = ""

    def runbook(self, name: str) -> str:
        """Return the address of a runbook; "" if no address is configured."""
        return f"{self.runbooks.rstrip('/')}/{name}.md" if self.runbooks else ""

    def fleet(self) -> str:
        """Return the address of the fleet page."""
        return self.base or ""

    def cluster(self, cluster: str, **query: str) -> str:
        """Return the address of the page of a cluster, with query parameters."""
        return self._path("clusters", cluster, **query)

    def node(self, cluster: str, node: str, **query: str) -> str:
        """Return the address of the page of a node, with query parameters."""
        return self._path("clusters", cluster, "nodes", node, **query)

    def case(self, cluster: str, case_id: str, **query: str) -> str:
        """Return the address of the page of a case, with query parameters."""
        return self._path("clusters", cluster, "cases", case_id, **query)

    def incident(self, cluster: str, incident_id: str, **query: str) -> str:
        """Return the address of the page of an incident, with query parameters."""
        return self._path("clusters", cluster, "incidents", incident_id, **query)

    def job(self, cluster: str, job_id: str, **query: str) -> str:
        """Return the address of the page of a job, whose id is a query parameter, because it may contain `/`."""
        return self._path("clusters", cluster, "jobs", id=job_id, **query)

    def order(self, cluster: str, kind: str, target: str = "") -> str:
        """Return the address of the form of an order, about a node or a case of a cluster or about the cluster."""
        return self._path("clusters", cluster, "orders", kind, **({"target": target} if target else {}))

    def asset(self, name: str) -> str:
        """Return the address of a style sheet, script or icon."""
        return self._path("assets", asset(name).hashed_name)

    def _path(self, *parts: str, **query: str) -> str:
        if self.base is None:
            return ""
        path = "/".join((self.base, *(quote(part, safe="", errors="replace") for part in parts)))
        return f"{path}?{urlencode(query, errors='replace')}" if query else path


DEFAULTS: Mapping[str, object] = {
    "since": None,
    "until": None,
    "presets": (),
    "refresh": 0,
    "version": "",
    "report": False,
    "operates": False,
    "forms": {},
}
"""The values of a page that refreshes nothing, has no time window, and whose reader may give no order."""


def render(template: str, links: Links, **values: object) -> str:
    """Render a template with values, and return the page as text."""
    given = {**DEFAULTS, "links": links, "style": asset(STYLE), "script": asset(SCRIPT), **values}
    return _environment().get_template(template).render(given)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show,
    )
    environment.filters |= {
        "time": lambda at: f"{at:%Y-%m-%d %H:%M:%S}",
        "iso": to_text,
        "parameter": lambda text: quote(text, safe="", errors="replace"),
        "percent": lambda share: f"{100 * share:.3f}%",
        "linked_ids": linked_ids,
        "whole_words": whole_words,
        "component": component_text,
        "severity": lambda name: mark(name, SEVERITY),
        "case_mark": case_mark,
        "reason": case_reason,
        "job_mark": job_state,
        "verdict": lambda verdict: mark(verdict.outlook, VERDICT),
        "duration": lambda length: duration_text(length) if length is not None else "",
    }
    environment.globals["page_texts"] = PAGE_TEXTS
    return environment


def linked_ids(text: str, links: Links | None = None, cluster: str = "") -> Markup:
    """Return a sentence as HTML: times that the reader's zone may replace, and ids, with `links` as short links."""
    parts = _ID.split(visible(text))  # every second part is an id
    shown = [_id(part, links, cluster) if number % 2 else escape(part) for number, part in enumerate(parts)]
    return Markup().join(shown)


def whole_words(command: str) -> Markup:
    """Return a command as HTML that is broken into lines only at spaces, so that options stay whole."""
    return Markup(" ").join(Markup('<span class="id">{}</span>').format(word) for word in visible(command).split(" "))


def _id(text: str, links: Links | None, cluster: str) -> Markup:
    if text.endswith(" UTC"):
        iso = f"{text[:-4].replace(' ', 'T')}:00Z"
        return Markup('<time datetime="{}">{}</time>').format(iso, text)
    address = ""
    if links is not None and text.startswith("c-"):
        address = links.case(cluster, text)
    elif links is not None and text.startswith("inc-"):
        address = links.incident(cluster, text)
    if not address:
        return Markup('<span class="id">{}</span>').format(text)
    return Markup('<a class="id" href="{}" title="{}">{}…</a>').format(address, text, text[:SHOWN])


def _show(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value)
