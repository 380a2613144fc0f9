"""Failure mechanisms: the known ways in which jobs die, as data that customers add to or replace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

import msgspec
from jsonschema import Draft202012Validator
from msgspec import Struct, field

from faultbridge.decode.data import packaged_json
from faultbridge.decode.data.patterns import bounded_pattern, check_repetitions
from faultbridge.explain.signals.signal import LogPattern, Role, Signal, read_pattern
from faultbridge.model.enums import Outlook
from faultbridge.model.errors import Misconfigured

NODE_DOMAINS = frozenset({"hardware", "network"})
DOMAINS = ("hardware", "network", "storage", "platform", "software", "numerical")
"""The domains with a file of mechanisms. A cause that is not known has the domain `unknown`."""
SCHEMA = "explain/schema.json"
"""The JSON Schema for documents of log patterns and mechanisms, packaged or from a customer."""
DECISIVE = "decisive"
"""The strength of a signal that shows a mechanism by itself."""


class GoldenCase(Struct, frozen=True):
    """An example of a failure: its signals (`verdict_on` describes their form), and the verdict that they give."""

    signals: tuple[str, ...]
    verdict: Outlook


class Mechanism(Struct, frozen=True):
    """A failure mechanism: one way in which jobs die, with what to do afterwards (the outlook).

    - `initiators` maps name patterns, such as `nccl.*`, to a strength, such as `weak` or `decisive`. A signal that
      matches such a pattern indicates that the mechanism started.
    - `causes` are the name patterns of the signals that the mechanism causes.
    - `after_progress` replaces `outlook` if the job had started well before it failed (`TimeLine.has_started_well`),
      and `after_hours` if it had worked for an hour: what worked so long was right, so its environment changed.
      `on_many_ranks` replaces both if many ranks report the same error.
    - `unchecked` replaces `outlook` if one process shows the error alone, and no log of a node covers the failure.
    - With `may_be_hardware`, hardware can cause the same error, so the mechanism does not rule it out.
    - With `expects_node`, the logs of the node should show the mechanism, and a signal of the job alone counts less.
    - With `trusts_job`, a line of the job, such as a line of its scheduler, is enough to name the node.
    - `settles` is what an operator can do next to find out whether this mechanism is the right explanation.
    """

    name: str
    domain: str
    outlook: Outlook
    summary: str
    initiators: Mapping[str, str]
    causes: tuple[str, ...]
    settles: str
    source: str
    cases: tuple[GoldenCase, ...]
    after_progress: Outlook | None = None
    after_hours: Outlook | None = None
    on_many_ranks: Outlook | None = None
    unchecked: Outlook | None = None
    expects_node: Literal["node"] | None = field(name="expects", default=None)
    trusts_job: Literal["job"] | None = field(name="trusts", default=None)
    may_be_hardware: Literal["possible"] | None = field(name="hardware", default=None)

    @property
    def is_of_nodes(self) -> bool:
        """Return whether the mechanism is in hardware or network, or leaves nodes out of the restart."""
        return self.domain in NODE_DOMAINS or self.outlook is Outlook.RESTART_WITHOUT

    def strength(self, signal: Signal) -> str | None:
        """Return how strongly a signal indicates that this mechanism started, or None."""
        return next((one for glob, one in self.initiators.items() if signal.matches(glob)), None)

    def can_cause(self, signal: Signal) -> bool:
        """Return whether a signal can belong to this failure mechanism, as its start or as a consequence."""
        return self.strength(signal) is not None or any(fnmatchcase(signal.name, glob) for glob in self.causes)


class FaultRole(Struct, frozen=True):
    """The role of a fault code, which may be a name pattern."""

    code: str
    role: Role


class MechanismData(Struct, frozen=True):
    """One document of log patterns (rows of `signals`), roles of fault codes, and failure mechanisms."""

    signals: tuple[Mapping[str, Any], ...] = ()
    faults: tuple[FaultRole, ...] = ()
    mechanisms: tuple[Mechanism, ...] = ()


class Book(Struct, frozen=True):
    """The data for a verdict: log patterns, the role of each fault code, and failure mechanisms."""

    patterns: tuple[LogPattern, ...]
    roles: Mapping[str, Role]
    mechanisms: tuple[Mechanism, ...]


class Weights(Struct, frozen=True):
    """Points per kind of evidence, and numeric limits in the rules for a verdict, such as `skew_seconds`."""

    points: Mapping[str, int]
    limits: Mapping[str, int]


@cache
def packaged_book() -> Book:
    """Return the log patterns, fault code roles and failure mechanisms that this package contains."""
    documents = (packaged_json(f"explain/{domain}.json") for domain in DOMAINS)
    return read_book(msgspec.convert(one, MechanismData) for one in documents)


@cache
def packaged_weights(same_attempts: int | None = None) -> Weights:
    """Return the points of each kind of evidence, and the limits; a policy may replace `same_attempts`."""
    found, own = packaged_json("explain/weights.json"), {"same_attempts": same_attempts} if same_attempts else {}
    limits = {one["name"]: one["value"] for one in found["limits"]} | own
    return Weights({one["name"]: one["points"] for one in found["weights"]}, limits)


def extended_book(documents: Iterable[object]) -> Book:
    """Return the packaged patterns, roles and mechanisms, extended or replaced by a customer's."""
    own = read_book([_validated(one) for one in documents])
    base, names = packaged_book(), {one.name for one in own.mechanisms}
    kept = tuple(one for one in base.mechanisms if one.name not in names)
    return Book((*own.patterns, *base.patterns), {**base.roles, **own.roles}, (*own.mechanisms, *kept))


def read_book(documents: Iterable[MechanismData]) -> Book:
    """Return the log patterns, fault code roles and failure mechanisms in documents."""
    documents = list(documents)
    patterns = tuple(read_pattern(row) for one in documents for row in one.signals)
    roles = {row.code: row.role for one in documents for row in one.faults}
    return Book(patterns, roles, tuple(mechanism for one in documents for mechanism in one.mechanisms))


def _validated(document: object) -> MechanismData:
    error = next(iter(Draft202012Validator(packaged_json(SCHEMA)).iter_errors(document)), None)
    if error is not None:
        at = "/".join(map(str, error.absolute_path)) or "the document"
        raise Misconfigured(f"invalid mechanisms: {at}: {error.message[:200]}")
    data = msgspec.convert(document, MechanismData)
    for row in data.signals:
        bounded_pattern(row.get("pattern", ""))
        check_repetitions(row.get("pattern", ""))
    return data
