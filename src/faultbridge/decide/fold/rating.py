"""Rating: severity, action, scope and ends of a condition, from its active reporters together.

Each active reporter contributes the values of its source, else those of its catalog row, which are those of the failure
mode unless the row has its own. The strongest values apply, in whichever order the reports arrived. They apply again
after a reporter ended. Decision 0016 states why a row with a milder value cannot weaken a condition.

A claim is a report whose sender did not prove to be the node. Claims do not contribute while a proven report names the
device and an exact code.
"""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.model.catalog import Catalog, Row, Scope
from faultbridge.model.conditions import Condition, Reporter, row_of
from faultbridge.model.values import replace

_SCOPES = list(Scope)
_QUIET = "quiet:"


def rated(condition: Condition, catalog: Catalog) -> Condition:
    """Return a condition with the values that its active reporters have together; unchanged without such a reporter."""
    deciding = _deciding(condition)
    if not deciding:
        return condition
    severities = [one.severity for one in deciding.values() if one.severity is not None]
    actions = [one.action for one in deciding.values() if one.action is not None]
    rows = [catalog.row(row_of(key)) for key in deciding]
    own = [row for row in rows if row.mode == condition.mode] or [catalog.row(condition.mode)]
    families = {row.family for row in own if row.family is not None}
    mode = catalog.modes.get(condition.mode)
    return replace(
        condition,
        reported_severity=max(severities, key=lambda one: one.rank, default=condition.as_reported.severity),
        reported_action=max(actions, key=lambda one: one.rank, default=condition.as_reported.action),
        scope=max((row.scope for row in own), key=_SCOPES.index),
        ends_on=_common_ends(own),
        family=mode.family if mode is not None and mode.family in families else min(families, default=None),
    )


def _deciding(condition: Condition) -> dict[str, Reporter]:
    active = {key: one for key, one in condition.reporters.items() if one.active}
    proven = {key: one for key, one in active.items() if not one.claimed}
    return proven if any(one.unspecific_key is None for one in proven.values()) else active


def _common_ends(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return what ends the reports of all these rows; a quiet period only if each has one, then the longest."""
    distinct = sorted({row.ends_on for row in rows})
    if len(distinct) == 1:
        return distinct[0]
    first, *others = distinct
    quiet = [
        min((int(end.removeprefix(_QUIET)) for end in ends if end.startswith(_QUIET)), default=0) for ends in distinct
    ]
    shared = [end for end in first if all(end in ends for ends in others) and not end.startswith(_QUIET)]
    return (*((f"{_QUIET}{max(quiet)}",) if all(quiet) else ()), *shared)
