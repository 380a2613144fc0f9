"""Packaged data: the catalog of fault codes and failure modes, GPUs by instance type, and other tables.

`mapping` loads the mappings from other tools' terms to fault codes. `counters` loads the thresholds of counters, the
rates of ports and the detectors of gray failures, `policies` the default policy, and `patterns` the rows of log texts;
it also checks regular expressions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultbridge.model.catalog import Catalog, DomainRole, Kind, Mode, Recommendation, Row, Scope, WorkEffect
from faultbridge.model.fault_enums import Action, ComponentType, Family, Severity

if TYPE_CHECKING:
    from faultbridge.model.offenders import Odds

FOLDER = Path(__file__).parent


@cache
def packaged_json(path: str) -> Any:  # noqa: ANN401 - any JSON; each caller knows its file
    """Return the content of a packaged file, such as `tables/dcgm.json`. It is read once, and no caller changes it."""
    return json.loads((FOLDER / path).read_bytes())


@cache
def load_catalog() -> Catalog:
    """Return the packaged catalog of fault codes; each row is built when it is first used."""
    index = packaged_json("catalog/index.json")
    raw = (row for name in index["files"] for row in packaged_json(f"catalog/{name}"))
    rows = _LazyRows({row["code"]: row for row in raw})
    return Catalog(index["version"], rows, verification_coverage(), verifiers_by_fault(), failure_modes())


def code_document(code: str) -> dict[str, Any]:
    """Return the row of the catalog for a code in any case, with its details; an unknown code has the default row."""
    known = load_catalog()
    by_lower_case = {listed.lower(): listed for listed in known.rows}
    row = known.row(by_lower_case.get(code.lower(), code))
    details = [row_document(one, known) for one in known.rows.values() if one.code.startswith(f"{row.code}:")]
    return row_document(row, known) | {"details": details}


def row_document(row: Row, known: Catalog) -> dict[str, Any]:
    """Return a row of the catalog as plain data, as `faultbridge catalog --json` prints it."""
    return {
        "code": row.code,
        "name": row.name,
        "failure_mode": row.mode,
        "work": row.work,
        "severity": row.severity,
        "action": row.action,
        "kind": row.kind,
        "scope": row.scope,
        "ends_on": list(row.ends_on),
        "stands_for": list(row.stands_for),
        "conflict": row.conflict,
        "reason": row.reason,
        "recommendations": [{"source": one.source, "says": one.says} for one in row.recommendations],
        "known": row.code in known.rows,
        "catalog": known.version,
    }


@cache
def failure_modes() -> Mapping[str, Mode]:
    """Return the failure modes by name: what is physically wrong, whichever source and code reports it."""
    return {name: _mode(name, raw) for name, raw in packaged_json("modes.json")["modes"].items()}


@cache
def verification_coverage() -> Mapping[str, Mapping[int, tuple[str, ...]]]:
    """Return the fault codes and families that a passed verification proves fixed, by verifier and level.

    A level also covers everything that lower levels cover. The value of a level does not repeat that.
    """
    verifiers: dict[str, dict[str, list[str]]] = packaged_json("coverage.json")["verifiers"]
    return {
        verifier: {int(level): tuple(covered) for level, covered in levels.items()}
        for verifier, levels in verifiers.items()
    }


@cache
def verifiers_by_fault() -> frozenset[str]:
    """Return the verifiers whose level depends on the faults of the node.

    Such a verifier runs at the lowest level that covers these faults, or at its highest level if no level covers all of
    them. A policy rule can name another level.
    """
    return frozenset(packaged_json("coverage.json")["by_fault"])


@cache
def gpus_by_instance_type() -> Mapping[str, int]:
    """Return the number of GPUs of an instance, by EC2 instance type (without HyperPod's prefix `ml.`)."""
    counts: dict[str, int] = packaged_json("instance_types.json")["gpus"]
    return counts


@cache
def efa_rates_by_instance_type() -> Mapping[str, int]:
    """Return the rate of each EFA device in Gb/s, by EC2 instance type."""
    rates: dict[str, int] = packaged_json("instance_types.json")["efa_gigabits_per_second"]
    return rates


@cache
def offender_odds() -> Odds:
    """Return the probabilities for estimating whether a GPU card or its slot causes repeated faults."""
    from faultbridge.model.offenders import Odds

    raw = packaged_json("offenders.json")
    return Odds(float(raw["repeat"]), float(raw["background"]))


@cache
def table(name: str) -> Mapping[str, Any]:
    """Return the tables of one subject, such as `dcgm`, by name."""
    tables: dict[str, Any] = packaged_json(f"tables/{name}.json")
    return tables


@cache
def packaged_sources() -> Mapping[str, Mapping[str, Any]]:
    """Return the sources that a module of `decode` reads, by name."""
    return {row["source"]: row for row in packaged_json("sources.json")["sources"]}


@cache
def sources_with(member: str) -> frozenset[str]:
    """Return the sources whose row has a member, such as `lines`."""
    return frozenset(name for name, row in packaged_sources().items() if member in row)


class _LazyRows(Mapping[str, Row]):
    """The rows of the catalog by fault code; each row is built when it is first used."""

    def __init__(self, raw: Mapping[str, Mapping[str, Any]]) -> None:
        self._raw = raw
        self._built: dict[str, Row] = {}

    def __getitem__(self, code: str) -> Row:
        row = self._built.get(code)
        if row is None:
            row = self._built[code] = _row(self._raw[code])
        return row

    def get(self, code: str, default: Any = None) -> Any:  # noqa: ANN401 - as `Mapping.get`, which is slow
        row = self._built.get(code)
        if row is None and code in self._raw:
            row = self[code]
        return default if row is None else row

    def __contains__(self, code: object) -> bool:
        return code in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def _mode(name: str, raw: Mapping[str, Any]) -> Mode:
    optional = ("after_checkpoint", "max_wait", "max_age", "lost_after", "needs_job", "reason", "source")
    return Mode(
        name=name,
        components=tuple(map(ComponentType, raw["component"])),
        meaning=raw["meaning"],
        work=WorkEffect(raw["work"]),
        severity=Severity(raw["severity"]),
        action=Action(raw["action"]),
        ends_on=tuple(raw["ends_on"]),
        scope=Scope(raw.get("scope", Scope.BOOT)),
        family=Family(raw["family"]) if "family" in raw else None,
        domain_role=DomainRole(raw["domain_role"]) if "domain_role" in raw else None,
        explains=tuple(raw.get("explains", ())),
        precursor_of=tuple(raw.get("precursor_of", ())),
        **{one: raw[one] for one in optional if one in raw},
    )


def _row(raw: Mapping[str, Any]) -> Row:
    mode = failure_modes()[raw["mode"]]
    family = raw.get("family", mode.family)
    return Row(
        code=raw["code"],
        name=raw["name"],
        severity=Severity(raw.get("severity", mode.severity)),
        action=Action(raw.get("action", mode.action)),
        kind=Kind(raw.get("kind", Kind.EDGE)),
        scope=Scope(raw.get("scope", mode.scope)),
        ends_on=(*(f"snapshot:{source}" for source in raw.get("snapshots", ())), *raw.get("ends_on", mode.ends_on)),
        stands_for=tuple(raw.get("stands_for", ())),
        recommendations=tuple(Recommendation(source, says) for source, says in raw.get("says", {}).items()),
        conflict=raw.get("conflict", False),
        reason=raw.get("reason", ""),
        family=None if family is None else Family(family),
        mode=mode.name,
        work=WorkEffect(raw.get("work", mode.work)),
    )
