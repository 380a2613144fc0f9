"""A console in memory: pages of a World, requested like a browser does."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from faultbridge.serve.entrypoints.console import answer
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.wiring.services import wire_cluster_status, wire_facts
from tests.api.gateway import ADMIN, event
from tests.world import World

HOSTILE = {
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&",
    "terminal": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "direction": "\u202egnp.exe\u2066\u200f",
    "long": "n" * 10_000,
    "surrogate": "broken \ud800 half",
}
"""Texts that a source may send."""


@dataclass(frozen=True)
class Answer:
    """A response with its decoded text."""

    status: int
    headers: dict[str, str]
    text: str


class Site:
    """Serves the console of a World."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World(nodes=("n-1", "n-2", "n-3"))

    def get(self, path: str = "", query: str = "", clusters: Iterable[str] | None = ADMIN, **headers: str) -> Answer:
        """GET a path below the base with a token for some clusters, or with None as an IAM caller."""
        path, _, own = path.partition("?")
        request = event("GET", f"/console{path}", "&".join(filter(None, (own, query))), b"", clusters)
        request["headers"] = {name.replace("_", "-"): value for name, value in headers.items()}
        answered: dict[str, Any] = answer(request, self.world.app)
        body = base64.b64decode(answered.get("body") or "")
        if answered["headers"].get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return Answer(answered["statusCode"], answered["headers"], body.decode())

    def binary(self, path: str) -> tuple[str, bytes]:
        """GET a path below the base, and return the type and the bytes of the response."""
        answered: dict[str, Any] = answer(event("GET", f"/console{path}", "", b"", ADMIN), self.world.app)
        assert answered["statusCode"] == 200
        return answered["headers"]["Content-Type"], base64.b64decode(answered["body"])

    def post(
        self, path: str, fields: dict[str, str], operated: Iterable[str] = ADMIN, person: str = "ada", **headers: str
    ) -> Answer:
        """POST a form to a path below the base as an operator, by default as a page of the console does."""
        path, _, query = path.partition("?")
        request = event("POST", f"/console{path}", query, urlencode(fields).encode(), (), operated, person)
        own = headers or {"sec_fetch_site": "same-origin"}
        request["headers"] = {name.replace("_", "-"): value for name, value in own.items()}
        answered: dict[str, Any] = answer(request, self.world.app)
        return Answer(answered["statusCode"], answered["headers"], base64.b64decode(answered["body"]).decode())

    def operated(self, path: str, operated: Iterable[str] = ADMIN, person: str = "ada") -> Answer:
        """GET a path below the base as an operator."""
        path, _, query = path.partition("?")
        answered: dict[str, Any] = answer(
            event("GET", f"/console{path}", query, b"", (), operated, person), self.world.app
        )
        return Answer(answered["statusCode"], answered["headers"], base64.b64decode(answered["body"]).decode())

    def form(self, path: str, **others: Any) -> dict[str, str]:
        """Return the hidden fields of the form at a path, as an operator sees it."""
        shown = self.operated(path, **others)
        assert shown.status == 200, shown.text
        return dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', shown.text))

    def fault(self, node: str = "n-1", **others: Any) -> str:
        """Report a fatal fault of a node; returns the id of its case."""
        wire_ingest(self.world.app).ingest([self.world.message(node=node, **others)])
        wire_cluster_status(self.world.app).update("train-a")
        (view,) = [one for one in wire_facts(self.world.app).views.cases("train-a") if one.key.node == node]
        return view.case.id
