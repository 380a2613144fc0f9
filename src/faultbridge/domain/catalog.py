"""What a fault code means: public recommendations, ours and why; what the fault clings to and what ends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from faultbridge.domain.faults import Action, Fault, Severity


class Kind(StrEnum):
    """Whether a code reports a moment (`edge`, an Xid) or a lasting state (`level`, a remap pending)."""

    EDGE = "edge"
    LEVEL = "level"


class Scope(StrEnum):
    """What a fault clings to, shortest-lived first: it ends at the latest when that is replaced."""

    PROCESS = "process"
    BOOT = "boot"
    DEVICE = "device"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What one public source says to do about a code, in that source's own word."""

    source: str
    says: str


@dataclass(frozen=True, slots=True)
class Row:
    """One code of the catalog.

    `ends_on` holds any of `reset_gpu`, `reboot_node`, `replace_node`, `verified`, `snapshot:<source>`, `quiet:<seconds>`.
    `same_as` names the code under which this one is counted (a lost GPU seen by nvidia-smi is `xid.79`), `stands_for`
    the codes and families (`xid.*`) of which this one is but a word, as when an agent calls a node unhealthy.
    """

    code: str
    name: str
    severity: Severity
    action: Action
    kind: Kind = Kind.EDGE
    scope: Scope = Scope.BOOT
    ends_on: tuple[str, ...] = ("reboot_node", "replace_node", "verified")
    same_as: str | None = None
    stands_for: tuple[str, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    conflict: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All known codes of one version; an unknown code is an error for support, never dropped and never guessed."""

    version: str
    rows: Mapping[str, Row] = field(default_factory=dict)

    def row(self, code: str) -> Row:
        """Return the row of a code, or the row of codes that nobody has described."""
        known = self.rows.get(code)
        return known or Row(code, "not in the catalog", Severity.ERROR, Action.CONTACT_SUPPORT)

    def canonical(self, code: str) -> str:
        """Return the code under which conditions of this code are kept."""
        return self.row(code).same_as or code

    def row_of(self, fault: Fault) -> Row:
        """Return the row that fits a fault best: by what its source told in detail, else by its code.

        NVLink5 errors (Xid 144 to 150) have rows `code:unit:errorstatus[:cause]` and `code:Fatal`, Xid 74 has rows
        `code:finding`; all others one by code. Where several bits of a status are set, the gravest row counts; an
        `exception` leaves the driver's own word.
        """
        for details in _details(fault.attributes):
            rows = [row for detail in details if (row := self.rows.get(f"{fault.code}:{detail}")) is not None]
            if rows:
                return max(rows, key=lambda row: (row.severity.rank, row.action.rank))
        return self.row(fault.code)

    def classify(self, fault: Fault) -> Fault:
        """Give a fault the catalog's severity and action where its source stated none."""
        row = self.row_of(fault)
        return fault.classified(row.severity, row.action)


def _details(told: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the endings of the rows that may fit, the most exact first."""
    if "findings" in told:
        yield (told["findings"].partition(",")[0],)
    if "unit" not in told:
        return
    if "exception" not in told:
        for unit in (told["unit"], told.get("decoded_unit")):
            yield from _details_of_unit(unit, told)
    yield (told.get("severity", ""),)


def _details_of_unit(unit: str | None, told: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    status = told.get("errorstatus", "")
    yield (f"{unit}:{status}:{told.get('cause')}",)
    yield (f"{unit}:{status}",)
    yield tuple(f"{unit}:{bit:#010x}" for bit in _set_bits(status))


def _set_bits(word: str) -> tuple[int, ...]:
    try:
        number = int(word, 16)
    except ValueError:
        return ()
    return tuple(1 << place for place in range(32) if number >> place & 1)
