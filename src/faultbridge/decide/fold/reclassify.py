"""Reclassify: move the conditions and tombstones of a node to the failure modes of another catalog version.

The stored code and attributes of each report name its mode. Entries that are recorded are never changed.
"""

from __future__ import annotations

from datetime import datetime

from faultbridge.decide.fold.changes import Change, ChangeKind, Folded
from faultbridge.decide.fold.condition_updates import merge_conditions
from faultbridge.decide.fold.node_conditions import merge_tombstones
from faultbridge.decide.fold.rating import rated
from faultbridge.model.catalog import Catalog
from faultbridge.model.conditions import Condition, Reporter, Tombstone, code_of, row_of, source_of
from faultbridge.model.faults import Fault
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace


def reclassify(state: NodeState, catalog: Catalog, now: datetime) -> Folded:
    """Return the node under this catalog version, with one change for each condition whose mode is another one."""
    if state.catalog in {"", catalog.version}:
        return Folded(state)
    conditions: dict[str, Condition] = {}
    changes: list[Change] = []
    moved: dict[str, str] = {}
    for key, one in state.conditions.items():
        for part in _parts(one, catalog):
            other = conditions.get(part.key)
            merged = conditions[part.key] = part if other is None else merge_conditions(other, part, catalog)
            if part.mode != one.mode:
                moved.setdefault(key, part.mode)
                reason = f"catalog {catalog.version}: {part.mode} instead of {one.mode or one.code}"
                changes.append(Change(ChangeKind.UPDATED, now, merged, reason=reason, changed_parts=("mode",)))
    case = state.case
    if case is not None and case.condition_key in moved:
        case = replace(case, mode=moved[case.condition_key])
    probations = tuple(replace(one, mode=catalog.row(one.code).mode) for one in state.probations)
    found = replace(state, conditions=conditions, case=case, probations=probations, catalog=catalog.version)
    return Folded(replace(found, tombstones=_tombstones(state, catalog)), tuple(changes))


def _parts(one: Condition, catalog: Catalog) -> list[Condition]:
    """Return a condition as one condition for each mode that its active reporters have now."""
    reporters: dict[str, dict[str, Reporter]] = {}
    for name, reporter in one.reporters.items():
        mode = one.mode if reporter.unspecific_key else _mode(one, name, catalog)
        reporters.setdefault(mode, {})[name] = reporter
    active = {mode: found for mode, found in reporters.items() if any(each.active for each in found.values())}
    if active.keys() <= {one.mode}:
        return [rated(one, catalog)]
    return [
        rated(
            replace(one, mode=mode, code=one.code if len(active) == 1 else code_of(min(found)), reporters=found),
            catalog,
        )
        for mode, found in sorted(active.items())
    ]


def _mode(one: Condition, reporter: str, catalog: Catalog) -> str:
    if row := catalog.rows.get(row_of(reporter)):
        return row.mode
    return catalog.row_of(
        Fault(source_of(reporter), code_of(reporter), one.component, "", attributes=one.attributes)
    ).mode


def _tombstones(state: NodeState, catalog: Catalog) -> dict[str, Tombstone]:
    found: dict[str, Tombstone] = {}
    for key, tombstone in state.tombstones.items():
        former, _, component = key.partition("@")
        by_mode: dict[str, dict[str, datetime]] = {} if tombstone.reporters else {former: {}}
        for name, at in tombstone.reporters.items():
            by_mode.setdefault(catalog.row(code_of(name)).mode, {})[name] = at
        for mode, reporters in by_mode.items():
            ended, new = replace(tombstone, reporters=reporters), f"{mode}@{component}"
            found[new] = merge_tombstones(found[new], ended) if new in found else ended
    return found
