"""Origins: the fault of one node that explains the faults of the other nodes of an incident.

The failure mode of a fault has a role: a fatal Xid 145 or an Xid 149 is an origin, and a non-fatal Xid 145 or an
Xid 149 whose cause is at the other end of the link is a symptom. An origin names the modes that it explains. Power
failures of many nodes are origins too, but none explains another, so that the origin of their incident is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from faultbridge.decide.correlate.shared_causes import AffectedNode
from faultbridge.decide.fold.changes import Folded
from faultbridge.decide.fold.expire import end_unobserved
from faultbridge.model.catalog import Catalog, DomainRole, Kind, Mode
from faultbridge.model.cluster.incidents import CorrelationLimits, Incident, Origin
from faultbridge.model.conditions import Condition, row_of
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace


def find_origin(members: Sequence[AffectedNode], catalog: Catalog, percent: int) -> Origin | None:
    """Return the first origin fault that explains faults of at least `percent` % of the other nodes, or None."""
    shown = {one.node: frozenset(_mode(catalog, row) for row in one.sites) for one in members}
    candidates = sorted(
        (site.since, one.node, row)
        for one in members
        for row, site in one.sites.items()
        if (mode := catalog.modes.get(_mode(catalog, row))) and mode.domain_role is DomainRole.ORIGIN
    )
    explained = {
        name: sum(not modes.isdisjoint(catalog.modes[name].explains) for modes in shown.values())
        for name in {_mode(catalog, row) for _, _, row in candidates}
    }
    sites, others = {one.node: one.sites for one in members}, len(members) - 1
    for _, node, row in candidates:
        mode = catalog.modes[_mode(catalog, row)]
        own = not shown[node].isdisjoint(mode.explains)
        if others and (explained[mode.name] - own) * 100 >= percent * others:
            return Origin(node, row.partition(":")[0], mode.name, sites[node][row])
    return None


def with_origin(
    incident: Incident, members: Sequence[AffectedNode], catalog: Catalog, limits: CorrelationLimits, now: datetime
) -> Incident:
    """Return the incident with its origin, which stays the origin until another fault explains the other nodes."""
    found = find_origin(members, catalog, limits.explains)
    before = incident.origin
    if found is None or (before is not None and found.node == before.node):
        found = before
    if found is None:
        return incident
    serves = any(one.node == found.node and not one.out for one in members)
    return replace(incident, origin=replace(found, out_at=None if serves else found.out_at or now))


def end_symptoms(
    state: NodeState, origin: Mode, catalog: Catalog, *, since: datetime, quiet: timedelta, now: datetime
) -> Folded:
    """End the symptoms of an origin that is out since `since`, and that the node has not shown for `quiet`.

    A state that a sensor reports ends when the sensor does not report it any more.
    """

    def is_symptom(condition: Condition) -> bool:
        rows = [catalog.row(row_of(key)) for key, one in condition.reporters.items() if one.active]
        return all(row.kind is Kind.EDGE and row.mode in origin.explains for row in rows)

    reason = "the origin of the incident is out of service, and the symptom was not observed since"
    return end_unobserved(state, is_symptom, since=since, quiet=quiet, now=now, reason=reason)


def _mode(catalog: Catalog, row: str) -> str:
    return catalog.row(row).mode
