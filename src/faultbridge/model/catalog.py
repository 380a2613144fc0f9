"""The fault catalog: what each fault code means, what ends its faults, and what sources recommend."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from faultbridge.model.fault_enums import Action, ComponentType, Family, Severity
from faultbridge.model.faults import Fault
from faultbridge.model.values import replace

UNCLASSIFIED = "unclassified."
"""The prefix of the failure mode of a code that the catalog does not have; the code follows."""


class Kind(StrEnum):
    """Whether a fault code reports an event (`edge`: an Xid) or a state (`level`: a pending row remap)."""

    EDGE = "edge"
    LEVEL = "level"


class Scope(StrEnum):
    """The part of a node that a fault belongs to. The members are sorted by lifetime, shortest first.

    A reboot ends the faults of the scopes `process` and `boot`.
    """

    PROCESS = "process"
    BOOT = "boot"
    DEVICE = "device"
    INSTANCE = "instance"


class WorkEffect(StrEnum):
    """What a failure mode does to the work on the node."""

    NODE = "node"
    DEVICE = "device"
    PROCESS = "process"
    AT_RISK = "at_risk"
    UNAFFECTED = "unaffected"


LOST = frozenset({WorkEffect.NODE, WorkEffect.DEVICE})
"""The effects of a mode that already ended work."""


class DomainRole(StrEnum):
    """Whether a failure mode is the cause of a failure that several nodes share, or a consequence of it."""

    ORIGIN = "origin"
    SYMPTOM = "symptom"


@dataclass(frozen=True, slots=True)
class Mode:
    """A failure mode: what is physically wrong, whichever source and code reports it.

    - `components` are the types of component that it affects. `family` is that of the faults, or None.
    - `work`: all work of the node is dead (`node`), or the work that uses the component (`device`), or one process died
      (`process`), or work runs and may die (`at_risk`), or it is `unaffected`.
    - `severity`, `action`, `scope` and `ends_on` are those of its catalog rows, unless a row has its own.
    - `domain_role` is its role in a failure that several nodes share. `explains` names the modes that it causes.
    - `precursor_of` names the modes that can follow later, as a public source states. If `after_checkpoint` is `drain`,
      the node may be drained after its job saved a checkpoint; otherwise it is None.
    - `max_wait`, `max_age` and `lost_after` are seconds or None. At-risk work waits up to `max_wait` for a checkpoint.
      A mode of unaffected work counts as at risk after `max_age`. Work that shows no progress for `lost_after` is dead.
    - With `needs_job`, it is a condition only of a node on which a followed job runs; otherwise it is noted.
    - `reason` explains the work, severity and action. `source` states where the facts on its future are from.
    """

    name: str
    components: tuple[ComponentType, ...]
    meaning: str
    work: WorkEffect
    severity: Severity
    action: Action
    ends_on: tuple[str, ...]
    scope: Scope = Scope.BOOT
    family: Family | None = None
    domain_role: DomainRole | None = None
    explains: tuple[str, ...] = ()
    precursor_of: tuple[str, ...] = ()
    after_checkpoint: str | None = None
    max_wait: int | None = None
    max_age: int | None = None
    lost_after: int | None = None
    needs_job: bool = False
    reason: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What one public source recommends for a fault code, in the source's own words."""

    source: str
    says: str


@dataclass(frozen=True, slots=True)
class Row:
    """One fault code of the catalog and its meaning.

    - `mode` names the failure mode. `work`, `severity` and `action` are those of the mode, unless the row has its own,
      which `reason` explains.
    - `ends_on` lists what ends the fault: a repair action (`reset_gpu`, `reboot_node`, `replace_node`), a passed
      verification (`verified`), a health snapshot without the fault (`snapshot:<source>`), or a time without a new
      report of it (`quiet:<seconds>`).
    - `stands_for` is set for an unspecific code, such as "node unhealthy". It lists the codes and code patterns
      (`xid.*`) that such a report can mean.
    - `conflict` is True if the sources in `recommendations` recommend different things.
    - `family` is the group of fault codes that often have a shared cause outside the node, or None.
    """

    code: str
    name: str
    severity: Severity
    action: Action
    kind: Kind = Kind.EDGE
    scope: Scope = Scope.BOOT
    ends_on: tuple[str, ...] = ("reboot_node", "replace_node", "verified")
    stands_for: tuple[str, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    conflict: bool = False
    reason: str = ""
    family: Family | None = None
    mode: str = ""
    work: WorkEffect = WorkEffect.UNAFFECTED


@dataclass(frozen=True, slots=True)
class Catalog:
    """All fault codes and failure modes of one catalog version.

    An unknown code has severity `warning`, action `contact_support` and a failure mode of its own. `coverage` lists, by
    verifier and diagnostic level, the codes and code patterns that a passed verification proves fixed. `by_fault` names
    the verifiers whose diagnostic level depends on the faults of the node (`lowest_level`).
    """

    version: str
    rows: Mapping[str, Row] = field(default_factory=dict)
    coverage: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    by_fault: frozenset[str] = frozenset()
    modes: Mapping[str, Mode] = field(default_factory=dict)

    def covers(self, verifier: str, level: int, code: str) -> bool:
        """Return whether a verification at `level` can prove that a fault of this code is fixed.

        A level also proves what each lower level proves.
        """
        levels = self.coverage.get(verifier, {})
        return any(fnmatchcase(code, one) for known in levels if known <= level for one in levels[known])

    def lowest_level(self, verifier: str, codes: Collection[str]) -> int | None:
        """Return the lowest diagnostic level of a verifier that covers all these codes.

        If no level covers all codes, the highest level is returned. None means that the verifier runs at its own
        default level, because it is not in `by_fault` or has no `coverage`.
        """
        levels = sorted(self.coverage.get(verifier, {})) if verifier in self.by_fault else []
        covering = (level for level in levels if all(self.covers(verifier, level, code) for code in codes))
        return next(covering, levels[-1]) if levels else None

    def row(self, code: str) -> Row:
        """Return the catalog row of a fault code, or the default row for an unknown code.

        A mapping can use the name of a failure mode as a code; its row is what the mode says. Each unknown code has a
        failure mode of its own, `unclassified.<code>`, so that two of them never become one.
        """
        if row := self.rows.get(code):
            return row
        if mode := self.modes.get(code):
            return _row_of_mode(mode)
        return _unclassified(code, Severity.WARNING, WorkEffect.UNAFFECTED)

    def knows(self, code: str) -> bool:
        """Return whether the catalog has a fault code, or a failure mode of this name."""
        return code in self.rows or code in self.modes

    def row_of(self, fault: Fault) -> Row:
        """Return the most specific row of the catalog that describes a fault.

        - Xid 74 has rows `code:finding`. The first value in the fault's attribute `findings` selects the row.
        - Xid 154 has rows `code:value`. The attribute `recovery_action` of the fault selects the row.
        - An NVLink5 error (Xid 144 to 150) has rows `code:unit:errorstatus[:cause]`, and less specific rows for the
          severity that the driver reported, such as `code:Fatal`. The fault's attributes select the row. If the fault
          has the attribute `exception`, only the rows for the severity are considered.
        - Some rows have a single bit as `errorstatus`. If the fault's status has the bits of several such rows, the
          most severe of these rows applies.
        - If no such row exists, and for any other code, the result is the row of the code.
        - If the catalog does not have the code, but the source calls the fault fatal, work is at risk.
        """
        attributes = fault.attributes
        # Runs several times for every fault, and few faults have rows of their own.
        is_specific = attributes and (
            "unit" in attributes or "findings" in attributes or "recovery_action" in attributes
        )
        for suffixes in _row_suffixes(attributes) if is_specific else ():
            rows = [row for suffix in suffixes if (row := self.rows.get(f"{fault.code}:{suffix}")) is not None]
            if rows:
                return max(rows, key=lambda row: (row.severity.rank, row.action.rank))
        if fault.severity is Severity.FATAL and not self.knows(fault.code):
            return _unclassified(fault.code, Severity.ERROR, WorkEffect.AT_RISK)
        return self.row(fault.code)

    def classify(self, fault: Fault) -> Fault:
        """Return the fault with severity and action; the catalog supplies what the source did not state.

        A source cannot make a fault fatal whose code the catalog does not have: its severity becomes `error`.
        """
        row = self.row_of(fault)
        if fault.severity is Severity.FATAL and not self.knows(fault.code):
            fault = replace(fault, severity=row.severity)
        is_classified = fault.severity is not None and fault.action is not None
        return fault if is_classified else fault.classified(row.severity, row.action)


def _row_of_mode(mode: Mode) -> Row:
    return Row(
        mode.name,
        mode.meaning.rstrip("."),
        mode.severity,
        mode.action,
        scope=mode.scope,
        ends_on=mode.ends_on,
        reason=mode.reason,
        family=mode.family,
        mode=mode.name,
        work=mode.work,
    )


def _unclassified(code: str, severity: Severity, work: WorkEffect) -> Row:
    name, mode = "not in the catalog", f"{UNCLASSIFIED}{code}"
    return Row(code, name, severity, Action.CONTACT_SUPPORT, mode=mode, work=work)


def _row_suffixes(attributes: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the suffixes after `code:` of the rows that can describe a fault, most specific first.

    Each tuple contains suffixes of equal rank. `attributes` are the attributes of the fault.
    """
    if "findings" in attributes:
        yield (attributes["findings"].partition(",")[0],)
    if "recovery_action" in attributes:
        yield (attributes["recovery_action"],)
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
    try:
        number = int(status, 16)
    except ValueError:
        return ()
    return tuple(1 << position for position in range(32) if number >> position & 1)
