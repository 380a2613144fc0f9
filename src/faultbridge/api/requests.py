"""Requests: reads and limits the parameters and the body of a request before any lookup."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import from_text
from faultbridge.errors import Rejected

MAX_LENGTH = 256
MAX_FIELDS = 40
MAX_BODY = 4096
MAX_DIGITS = 12
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
ALL_CLUSTERS = "*"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: a name for the record, and the allowed clusters; None if the gateway checked them (IAM)."""

    name: str
    clusters: frozenset[str] | None = None

    def check(self, cluster: str | None) -> None:
        """Raise Rejected `forbidden` unless the caller may see a cluster. None stands for all clusters."""
        required = ALL_CLUSTERS if cluster is None else cluster
        if self.clusters is not None and not {required, ALL_CLUSTERS} & self.clusters:
            raise Rejected("forbidden", "the token does not allow this cluster")


@dataclass(frozen=True, slots=True)
class Request:
    """A request: names from its path, its query parameters, its body and its caller."""

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: str = ""
    caller: Caller = Caller("-")

    @property
    def cluster(self) -> str:
        """Return the cluster in the path."""
        return self.path["cluster"]

    def check_parameters(self, *allowed: str) -> None:
        """Raise Rejected `bad_parameter` for a parameter that the route does not have."""
        for name in self.query:
            if name not in allowed:
                raise Rejected(
                    "bad_parameter", f"unknown parameter: {name[:40]!r}; allowed: {', '.join(allowed) or 'none'}"
                )

    def text(self, name: str) -> str | None:
        """Return the value of a parameter, or None. Raises Rejected `bad_parameter` for several values."""
        values = self.texts(name)
        if len(values) > 1:
            raise Rejected("bad_parameter", f"{name} has more than one value")
        return values[0] if values else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a parameter. Each has at most 256 printable characters, except page tokens."""
        values = tuple(self.query.get(name, ()))
        for value in values:
            if not value or not value.isprintable() or (len(value) > MAX_LENGTH and name != "token"):
                raise Rejected("bad_parameter", f"invalid {name}; allowed: 1 to {MAX_LENGTH} printable characters")
        return values

    def flag(self, name: str) -> bool:
        """Return a parameter that is `true` or `false`; the default is False."""
        text = self.text(name) or "false"
        if text not in {"true", "false"}:
            raise Rejected("bad_parameter", f"invalid {name}: {text[:40]!r}; allowed: true, false")
        return text == "true"

    def integer(self, name: str, default: int, minimum: int, maximum: int) -> int:
        """Return an integer parameter, or the default. Raises Rejected `bad_parameter` outside the limits."""
        text = self.text(name)
        if text is None:
            return default
        valid = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and minimum <= int(text) <= maximum
        if not valid:
            raise Rejected("bad_parameter", f"invalid {name}; allowed: an integer from {minimum} to {maximum}")
        return int(text)

    def instant(self, name: str) -> datetime | None:
        """Return a time parameter, or None: RFC 3339 with a time zone, from 2000 to 2199."""
        text = self.text(name)
        if text is None:
            return None
        try:
            at = from_text(text)
        except (ValueError, OverflowError):
            raise Rejected("bad_parameter", f"invalid {name}; allowed: an RFC 3339 time with a time zone") from None
        if not EARLIEST <= at < LATEST:
            raise Rejected("bad_parameter", f"invalid {name}; allowed: {EARLIEST.year} to {LATEST.year - 1}")
        return at

    def choices(self, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
        """Return all values of a parameter. Raises Rejected `bad_parameter` for a value that is not allowed."""
        values = self.texts(name)
        for value in values:
            if value not in allowed:
                raise Rejected("bad_parameter", f"unknown {name}: {value[:40]!r}; allowed: {', '.join(allowed)}")
        return values

    def window(self) -> tuple[datetime | None, datetime | None]:
        """Return the parameters `since` and `until`; None where one is missing."""
        since, until = self.instant("since"), self.instant("until")
        if since and until and since >= until:
            raise Rejected("bad_parameter", "since is not before until")
        return since, until

    def json_body(self, limit: int = MAX_BODY) -> Mapping[str, Any]:
        """Return the body, a JSON object of at most 4 KB or another limit. An empty body is an empty object."""
        if len(self.body) > limit:
            raise Rejected("bad_body", f"the body is too large; allowed: {limit} characters")
        try:
            parsed = json.loads(self.body or "{}")
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise Rejected("bad_body", "the body is not a JSON object")
        return parsed


def read_query(text: str) -> dict[str, list[str]]:
    """Parse a query string. Raises Rejected `bad_parameter` if it has more than 40 fields."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Rejected("bad_parameter", f"too many query fields; allowed: {MAX_FIELDS}") from None
