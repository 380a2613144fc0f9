"""Requests: reads the parameters and the body of a request, and checks their limits."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct, field

from faultbridge.model.errors import Rejected
from faultbridge.model.findings import Mark
from faultbridge.model.log import log_cause
from faultbridge.model.times import from_text
from faultbridge.record.timeline import Tokens
from faultbridge.serve.orders import YEARS, OrderReason

MAX_LENGTH = 256
MAX_FIELDS = 40
MAX_BODY = 4096
MAX_DIGITS = 12
EARLIEST, LATEST = datetime(YEARS[0], 1, 1, tzinfo=UTC), datetime(YEARS[-1] + 1, 1, 1, tzinfo=UTC)
ALL_CLUSTERS = "*"
IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header under whose value a caller may repeat an order, which is executed once."""

READER_CLAIM = "faultbridge_clusters"
"""The JWT claim that lists the clusters that a caller may read; `*` means all."""

OPERATOR_CLAIM = "faultbridge_operator_clusters"
"""The JWT claim that lists the clusters that a caller may read and operate; `*` means all."""


class Caller(Struct, frozen=True):
    """The caller of a request: the name for audit records, and the clusters to read and operate.

    `clusters` is None if the caller signed in with IAM. API Gateway has then checked the access already, and the caller
    may read and operate every cluster. Any other caller may read `clusters`, and operate only `operated_clusters`.
    """

    name: str
    clusters: frozenset[str] | None = None
    operated_clusters: frozenset[str] = frozenset()

    def check(self, cluster: str | None) -> None:
        """Raise `Rejected` (`forbidden`) if the caller may not read a cluster.

        If `cluster` is None, the caller must have access to all clusters.
        """
        if self.clusters is not None and not _permits(self.clusters, cluster):
            raise Rejected("forbidden", "the token does not allow this cluster")

    def operates(self, cluster: str | None) -> bool:
        """Return whether the caller may operate a cluster, or all clusters if `cluster` is None."""
        return self.clusters is None or _permits(self.operated_clusters, cluster)

    def check_operator(self, cluster: str | None) -> None:
        """Raise `Rejected` (`forbidden`) if the caller may not operate a cluster.

        To operate means to give an order, mark or report. If `cluster` is None, the caller must be permitted to
        operate all clusters.
        """
        if self.operates(cluster):
            return
        missing = f"a change requires its name in the claim {OPERATOR_CLAIM}"
        log_cause("change refused", reason=missing, level=logging.WARNING, caller=self.name, cluster=cluster)
        raise Rejected("forbidden", f"the token may only read this cluster; {missing}")


def checked_key(key: str | None) -> str | None:
    """Return the value of the header `Idempotency-Key`; an invalid one raises `Rejected` (`bad_key`)."""
    if key is not None and not (0 < len(key) <= MAX_LENGTH and key.isascii() and key.isprintable()):
        raise Rejected("bad_key", f"invalid {IDEMPOTENCY_KEY}; allowed: 1 to {MAX_LENGTH} printable characters")
    return key


def _permits(clusters: frozenset[str], cluster: str | None) -> bool:
    return bool({ALL_CLUSTERS if cluster is None else cluster, ALL_CLUSTERS} & clusters)


class Request(Struct, frozen=True):
    """A request: the names in its path, its query parameters, its body, its caller, and its idempotency key."""

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: str = ""
    caller: Caller = Caller("-")
    key: str | None = None

    @property
    def cluster(self) -> str:
        """The name of the cluster in the path."""
        return self.path["cluster"]

    def check_parameters(self, *allowed: str) -> None:
        """Raise `Rejected` (`bad_parameter`) if the query has a parameter that is not in `allowed`."""
        for name in self.query:
            if name not in allowed:
                raise Rejected(
                    "bad_parameter", f"unknown parameter: {name[:40]!r}; allowed: {', '.join(allowed) or 'none'}"
                )

    def text(self, name: str) -> str | None:
        """Return the value of a parameter, or None if the request does not have the parameter.

        An invalid value, or several values, raise `Rejected` (`bad_parameter`).
        """
        values = self.texts(name)
        if len(values) > 1:
            raise Rejected("bad_parameter", f"{name} has more than one value")
        return values[0] if values else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a parameter; an invalid value raises `Rejected` (`bad_parameter`).

        A value has 1 to 256 printable characters. Only a page token may be longer.
        """
        values = tuple(self.query.get(name, ()))
        for value in values:
            if not value or not value.isprintable() or (len(value) > MAX_LENGTH and name != "token"):
                raise Rejected("bad_parameter", f"invalid {name}; allowed: 1 to {MAX_LENGTH} printable characters")
        return values

    def flag(self, name: str) -> bool:
        """Return the value of a parameter that is `true` or `false`; False if the request does not have it.

        Any other value, or several values, raise `Rejected` (`bad_parameter`).
        """
        text = self.text(name) or "false"
        if text not in {"true", "false"}:
            raise Rejected("bad_parameter", f"invalid {name}: {text[:40]!r}; allowed: true, false")
        return text == "true"

    def integer(self, name: str, default: int, minimum: int, maximum: int) -> int:
        """Return an integer parameter, or `default` if the request does not have it.

        A value other than an integer from `minimum` to `maximum`, or several values, raise `Rejected`
        (`bad_parameter`).
        """
        text = self.text(name)
        if text is None:
            return default
        valid = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and minimum <= int(text) <= maximum
        if not valid:
            raise Rejected("bad_parameter", f"invalid {name}; allowed: an integer from {minimum} to {maximum}")
        return int(text)

    def instant(self, name: str) -> datetime | None:
        """Return a time parameter, or None if the request does not have it.

        The value is an RFC 3339 time with a time zone, from 2000 to 2199. Any other value, or several values, raise
        `Rejected` (`bad_parameter`).
        """
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
        """Return all values of a parameter. Raises `Rejected` (`bad_parameter`) for a value not in `allowed`."""
        values = self.texts(name)
        for value in values:
            if value not in allowed:
                raise Rejected("bad_parameter", f"unknown {name}: {value[:40]!r}; allowed: {', '.join(allowed)}")
        return values

    def window(self) -> tuple[datetime | None, datetime | None]:
        """Return the time parameters `since` and `until`; each is None if the request does not have it.

        `Rejected` (`bad_parameter`) is raised for an invalid time, and if `since` is not before `until`.
        """
        since, until = self.instant("since"), self.instant("until")
        if since and until and since >= until:
            raise Rejected("bad_parameter", "since is not before until")
        return since, until

    def json_body(self, limit: int = MAX_BODY) -> Mapping[str, object]:
        """Return the body as a JSON object; an empty body gives an empty object.

        A body above `limit` characters, one that is no JSON object, and a name twice raise `Rejected` (`bad_body`).
        """
        if len(self.body) > limit:
            raise Rejected("bad_body", f"the body is too large; allowed: {limit} characters")
        try:
            parsed = json.loads(self.body or "{}", object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise Rejected("bad_body", "the body is not a JSON object without a repeated name")
        return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a name is repeated")
    return found


def read_query(text: str) -> dict[str, list[str]]:
    """Parse a query string; more than 40 fields raise `Rejected` (`bad_parameter`)."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Rejected("bad_parameter", f"too many query fields; allowed: {MAX_FIELDS}") from None


class FindingMark(OrderReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator's mark on a finding: `right` if the node had a defect, otherwise `wrong`."""

    mark: Mark


DEFAULT_LIMIT, MAX_LIMIT = 100, 500


class Paging(Struct, frozen=True):
    """Reads and signs the page tokens of lists.

    A token is valid only for one list of one cluster. The parameter `scope` of the methods names the list, such as
    `nodes`.
    """

    tokens: Tokens

    def read(self, request: Request, scope: str) -> tuple[int, str | None]:
        """Return the page size of a request, and the position in the list after which the page begins.

        The position comes from the page token. It is None if the request has no token, which means the first page.
        """
        limit, token = request.integer("limit", DEFAULT_LIMIT, 1, MAX_LIMIT), request.text("token")
        return limit, self.tokens.read(f"{request.cluster}\n{scope}", token) if token else None

    def next(self, request: Request, scope: str, more: str | None) -> str | None:
        """Return the token of the next page, which begins after the position `more`; None for the last page."""
        return self.tokens.sign(f"{request.cluster}\n{scope}", more) if more else None
