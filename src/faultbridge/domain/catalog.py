"""The fault catalog: severity, action, scope and end of each fault code, with their sources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from fnmatch import fnmatchcase

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import Action, Family, Fault, Severity


class Kind(StrEnum):
    """Whether a code reports an event (`edge`: an Xid) or a lasting state (`level`: a pending row remap)."""

    EDGE = "edge"
    LEVEL = "level"


class Scope(StrEnum):
    """The part of a node that a fault belongs to; the fault ends when that part is restarted or replaced.

    Listed from the part with the shortest life to the part with the longest.
    """

    PROCESS = "process"
    BOOT = "boot"
    DEVICE = "device"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The recommendation of one public source for a code, in the source's own words."""

    source: str
    says: str


@dataclass(frozen=True, slots=True)
class Row:
    """One code of the catalog.

    `ends_on` holds any of `reset_gpu`, `reboot_node`, `replace_node`, `verified`, `snapshot:<source>` and
    `quiet:<seconds>`.
    `same_as` is the code under which conditions of this code are stored: a lost GPU in nvidia-smi is `xid.79`.
    `stands_for` holds the codes and families (`xid.*`) that this unspecific code can report, as when an agent reports
    only that a node is unhealthy. `family` is set for a fault that many nodes show when something they share fails.
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
    family: Family | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    """All codes of one catalog version; an unknown code is an `error` with action `contact_support`.

    `coverage` holds the codes and families that a passed verification proves fixed, by verifier and level. A verifier
    in `by_fault` runs at the lowest level that covers the faults of the node, unless a rule names a level.
    """

    version: str
    rows: Mapping[str, Row] = field(default_factory=dict)
    coverage: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    by_fault: frozenset[str] = frozenset()

    def covers(self, verifier: str, level: int, code: str) -> bool:
        """Return whether a verification at `level`, or at a lower one, can prove that a fault of this code is fixed."""
        levels = self.coverage.get(verifier, {})
        return any(fnmatchcase(code, one) for known in levels if known <= level for one in levels[known])

    def lowest_level(self, verifier: str, codes: Collection[str]) -> int | None:
        """Return the lowest level that covers all these codes, or the highest level if none does.

        None means that the verifier runs at its default level.
        """
        levels = sorted(self.coverage.get(verifier, {})) if verifier in self.by_fault else []
        covering = (level for level in levels if all(self.covers(verifier, level, code) for code in codes))
        return next(covering, levels[-1]) if levels else None

    def row(self, code: str) -> Row:
        """Return the row of a code, or the default row for an unknown code."""
        return self.rows.get(code) or Row(code, "not in the catalog", Severity.ERROR, Action.CONTACT_SUPPORT)

    def canonical(self, code: str) -> str:
        """Return the code under which a condition with this code is stored; equivalent codes share one stored code."""
        return self.row(code).same_as or code

    def row_of(self, fault: Fault) -> Row:
        """Return the most specific row for a fault: by its attributes, else by its code.

        NVLink5 errors (Xid 144 to 150) have rows `code:unit:errorstatus[:cause]` and `code:Fatal`, Xid 74 has rows
        `code:finding`; every other code has one row. When several bits of a status are set, the worst row applies.
        With the attribute `exception` only the driver's own severity selects the row.
        """
        for suffixes in _row_suffixes(fault.attributes):
            rows = [row for suffix in suffixes if (row := self.rows.get(f"{fault.code}:{suffix}")) is not None]
            if rows:
                return max(rows, key=lambda row: (row.severity.rank, row.action.rank))
        return self.row(fault.code)

    def classify(self, fault: Fault) -> Fault:
        """Return a fault with the catalog's severity and action where its source stated none."""
        row = self.row_of(fault)
        return fault.classified(row.severity, row.action)


def _row_suffixes(attributes: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the row suffixes that match a fault's attributes, most specific first."""
    if "findings" in attributes:
        yield (attributes["findings"].partition(",")[0],)
    if "unit" not in attributes:
        return
    if "exception" not in attributes:
        for unit in (attributes["unit"], attributes.get("decoded_unit")):
            yield from _unit_suffixes(unit, attributes)
    yield (attributes.get("severity", ""),)


def _unit_suffixes(unit: str | None, attributes: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    status = attributes.get("errorstatus", "")
    yield (f"{unit}:{status}:{attributes.get('cause')}",)
    yield (f"{unit}:{status}",)
    yield tuple(f"{unit}:{bit:#010x}" for bit in _set_bits(status))


def _set_bits(status: str) -> tuple[int, ...]:
    """Return each set bit of a hexadecimal status as a number; empty for any other text."""
    try:
        number = int(status, 16)
    except ValueError:
        return ()
    return tuple(1 << position for position in range(32) if number >> position & 1)
