"""The kinds of pages about a whole cluster: incidents, stopped repairs, and reports of the provider."""

from __future__ import annotations

from faultbridge.domain.copies import replace
from faultbridge.domain.entries import EntryType
from faultbridge.pager.page_rule import CLUSTER_SHOW, CLUSTER_TIMELINE, INCIDENT_SHOW, PageKind, PageRule
from faultbridge.ports import PageUrgency

_INCIDENT_COMMANDS = (CLUSTER_TIMELINE, INCIDENT_SHOW)
# During maintenance, a faulty node opens no case and sends no page; the same applies to many faulty nodes.
_INCIDENT, _EXPIRED = (
    PageKind(name, EntryType.CLUSTER_INCIDENT.value, _INCIDENT_COMMANDS, "incident", postponed=True, replaces=replaced)
    for name, replaced in (("incident", None), ("incident-expired", "incident"))
)
_GROWN = replace(_INCIDENT, urgency=PageUrgency.NOTICE, replaces="incident", repeated=True)
_SAFETY = PageKind("safety", EntryType.CLUSTER_SAFETY.value, (CLUSTER_TIMELINE, CLUSTER_SHOW), "stuck-case")
_CLAIMS = PageKind(
    "claims", EntryType.CLUSTER_SAFETY.value, (CLUSTER_TIMELINE, CLUSTER_SHOW), "stuck-case", PageUrgency.NOTICE
)
_PROVIDER = PageKind("provider", EntryType.CLUSTER_STATUS.value, (CLUSTER_TIMELINE, CLUSTER_SHOW), "provider")

CLUSTER_RULES: tuple[PageRule, ...] = (
    _INCIDENT.triggered(
        {"change": frozenset({"opened"})},
        "cluster incident: {reason}",
        "Holds the repairs of its nodes ({nodes}); each case continues when the incident closes.{not_isolated}"
        "{no_repairs}",
        "Fix the common cause. Do not replace the nodes one by one.",
    ),
    _GROWN.triggered(
        {"change": frozenset({"grown"}), "doubled": frozenset({True})},
        "cluster incident grew: {reason}",
        "Holds the repairs of all its nodes ({nodes}).{not_isolated}{no_repairs}",
        "Look for a cause that all of them share. Do not replace the nodes one by one.",
    ),
    *(
        kind.resolved(
            {"change": frozenset({"expired"})},
            "cluster incident reached its maximum age, another page follows",
            "Continues the cases that it held, the oldest first.",
        )
        for kind in (_INCIDENT, _GROWN)
    ),
    _EXPIRED.triggered(
        {"change": frozenset({"expired"})},
        "cluster incident not over: {reason}",
        "Repairs the nodes that are still faulty ({nodes}) within the repair limits, oldest case first. If "
        "breakers hold these repairs, no further page follows.{not_isolated}{no_repairs}",
        "If they share one cause, pause repairs (faultbridge pause --cluster {cluster}) and fix it.",
    ),
    *(
        kind.resolved(
            {"change": frozenset({"closed"})},
            "cluster incident closed: {reason}",
            "Repairs the nodes that are still faulty, one by one, unless another incident holds them.{no_repairs}",
        )
        for kind in (_INCIDENT, _GROWN, _EXPIRED)
    ),
    _SAFETY.triggered(
        # Not `held`, and not with an incident: the incident behind the change has a page of its own.
        {
            "to": frozenset({"open", "half_open", "used_up", "paused"}),
            "incident_id": frozenset({None}),
            "covered_by": frozenset({None}),
        },
        "repairs on hold: {kind} is {to}",
        "Holds repairs ({reason}).",
        "Check for one cause behind many faults before you allow repairs again.",
    ),
    _SAFETY.resolved(
        {"to": frozenset({"closed", "available", "running"})},
        "repairs continue: {kind} is {to}",
        "Continues repairs ({reason}).",
    ),
    _CLAIMS.triggered(
        {"to": frozenset({"damped"})},
        "false claims of source {source}",
        "Records further claims only as notes until {until}. What the nodes themselves report still counts.",
        "Correct the alert or the mapping behind {source}.",
    ),
    _CLAIMS.resolved({"to": frozenset({"accepted"})}, "claims of {source} count again", "Continues ({reason})."),
    _PROVIDER.triggered(
        {"provider_stage": frozenset({"begun"})},
        "provider needs an operator: {reason}",
        "Records faults and repairs nodes as before; it does not repair a node because of this.",
        "Fix what the provider reports. The page ends when no condition of the provider needs an operator any more.",
    ),
    _PROVIDER.resolved(
        {"provider_stage": frozenset({"over"})},
        "provider no longer needs an operator",
        "Continues as before.",
    ),
)
"""Pages about a whole cluster. The hourly limit does not apply to them."""
