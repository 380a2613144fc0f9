"""Exempt nodes: nodes of an incident past its maximum age. Their repairs wait for no later incident.

An exempt node waits for no later incident of the same fault family. It stays exempt until it had no fault of this
family for the quiet period. Without this rule, a fault that comes and goes would open one incident after another, each
with a maximum age of its own, and the repair of the node would wait for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from faultbridge.domain.cluster.incidents import CorrelationLimits, Hold, Incident
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family


def exempt_nodes(
    incidents: Iterable[Incident], limits: CorrelationLimits, now: datetime
) -> frozenset[tuple[Family, str]]:
    """Return the exempt nodes of these incidents, each as a fault family and a node name.

    The repair of an exempt node waits for no further incident of the family. A node is exempt if its incident has
    expired, until it had no fault of the family for the quiet period of the incident.
    """
    holds = (hold_of(one, limits, now) for one in incidents)
    return frozenset((hold.family, name) for hold in holds for name in hold.exempt)


def hold_of(incident: Incident, limits: CorrelationLimits, now: datetime) -> Hold:
    """Return the `Hold` of an incident with its current exempt nodes. A `Hold` decides which repairs wait.

    The repair of an exempt node waits for no further incident of the family. A node of an expired incident is exempt
    until it had no fault of the family for the quiet period of the incident.
    """
    hold, left = incident.hold, recently_left(incident, incident.nodes, limits, now)
    return replace(hold, exempt=tuple(name for name in hold.exempt if name in left or name in incident.nodes))


def recently_left(
    incident: Incident, nodes: Iterable[str], limits: CorrelationLimits, now: datetime
) -> Mapping[str, datetime]:
    """Return the nodes that left an incident less than its quiet period ago, and when each of them left.

    `nodes` are the nodes that the incident affects now.
    """
    affected, quiet = frozenset(nodes), incident.quiet_period(limits)
    left = dict.fromkeys(incident.nodes, now) | dict(incident.left)
    return {name: at for name, at in sorted(left.items()) if name not in affected and now < at + quiet}
