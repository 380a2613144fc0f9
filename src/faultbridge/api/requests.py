"""Requests: what a caller asked, read and bounded before anything is looked up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from faultbridge.domain.times import from_text
from faultbridge.errors import Rejected

MAX_CHARACTERS = 256
MAX_FIELDS = 40
MAX_BODY = 4096
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
EVERY_CLUSTER = "*"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a name for the record, and the clusters allowed; None where the gateway saw to that (IAM)."""

    name: str
    clusters: frozenset[str] | None = None

    def check(self, cluster: str | None) -> None:
        """Raise `forbidden` unless the caller may see a cluster; None is all of them."""
        wanted = EVERY_CLUSTER if cluster is None else cluster
        if self.clusters is not None and not {wanted, EVERY_CLUSTER} & self.clusters:
            raise Rejected("forbidden", "the token does not allow this cluster")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: names in its path, its query as it was sent, and its body."""

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: str = ""
    caller: Caller = Caller("-")

    @property
    def cluster(self) -> str:
        """Return the cluster in the path."""
        return self.path["cluster"]

    def only(self, *names: str) -> None:
        """Raise `bad_parameter` for a parameter that the route does not have."""
        for name in self.query:
            if name not in names:
                raise Rejected("bad_parameter", f"{name[:40]!r} is none of {', '.join(names) or 'none'}")

    def text(self, name: str) -> str | None:
        """Return a parameter that is given at most once."""
        found = self.texts(name)
        if len(found) > 1:
            raise Rejected("bad_parameter", f"{name} is given more than once")
        return found[0] if found else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return every value of a parameter; each at most 256 printable characters, token excepted."""
        found = tuple(self.query.get(name, ()))
        for one in found:
            if not one or not one.isprintable() or (len(one) > MAX_CHARACTERS and name != "token"):
                raise Rejected("bad_parameter", f"{name} is not 1 to {MAX_CHARACTERS} printable characters")
        return found

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < len("1000000000000") and least <= int(text) <= most):
            raise Rejected("bad_parameter", f"{name} is no whole number from {least} to {most}")
        return int(text)

    def instant(self, name: str) -> datetime | None:
        """Return an instant with a time zone, of this or the last century's end on."""
        text = self.text(name)
        if text is None:
            return None
        try:
            at = from_text(text)
        except (ValueError, OverflowError):
            raise Rejected("bad_parameter", f"{name} is no RFC 3339 instant with a time zone") from None
        if not EARLIEST <= at < LATEST:
            raise Rejected("bad_parameter", f"{name} is not between {EARLIEST.year} and {LATEST.year}")
        return at

    def document(self) -> Mapping[str, Any]:
        """Return the body, a JSON object of at most 4 KB; nothing is an empty one."""
        if len(self.body) > MAX_BODY:
            raise Rejected("bad_body", f"the body is larger than {MAX_BODY} characters")
        try:
            found = json.loads(self.body or "{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Rejected("bad_body", "the body is no JSON object")
        return found


def read_query(text: str) -> dict[str, list[str]]:
    """Read a query string; `bad_parameter` when it has more fields than any question."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Rejected("bad_parameter", f"the query has more than {MAX_FIELDS} fields") from None
