"""Finds nodes whose case is still postponed although their exclusion from repairs has ended.

The state of a node stores the planned end of the exclusion. If a maintenance of the cluster or an update of the group
ends early, the case would open too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import to_text
from faultbridge.ledger.append import Append
from faultbridge.pipeline.decide.opt_out import opted_out_until
from faultbridge.storage.writes import Item


def postponed_too_long(rows: Iterable[Item], append: Append, config: ClusterConfig, now: datetime) -> Iterator[NodeKey]:
    """Yield the nodes with a postponed case that may open before the planned time in their state.

    `rows` are the index rows of the unhealthy nodes of the cluster. `append` reads the states of the nodes.
    """
    until = to_text(max(now, config.maintenance_until or now))
    nodes = [NodeKey(config.cluster, str(row["node"])) for row in rows if str(row.get("deferred_until") or "") > until]
    for state in append.read_many(nodes) if nodes else ():
        hold = config.update_hold(state.placement.group, now)
        ends = (now, opted_out_until(state, config, now), hold.until if hold else None)
        stored = state.case_deferred_until
        if stored is not None and stored > max(end for end in ends if end is not None):
            yield state.key
