"""Clusters: what they say of themselves is what their nodes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from faultbridge.domain.edges import NodeStatus
from faultbridge.pipeline.decide.cluster_status import cluster_status, counted
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View
from faultbridge.storage import items, keys


def _statuses(view: View) -> Iterator[str]:
    for item in view.partition(keys.CLUSTERS):
        cluster = str(item["cluster"])
        config = items.read_config(view.at(*keys.cluster_config(cluster)) or {})
        found = items.read_cluster(cluster, view.at(*keys.cluster_state(cluster)))
        statuses = [state.status for state in view.nodes if state.key.cluster == cluster and state.status is not None]
        bad: Counter[NodeStatus] = Counter(
            status for status in statuses if status not in {NodeStatus.HEALTHY, NodeStatus.RETIRED}
        )
        true = cluster_status(bad, config.expected), counted(bad, config.expected)
        if (found.status, dict(found.counts)) != true:
            yield f"{cluster} says {found.status} {dict(found.counts)}, its nodes are {true[0]} {true[1]}"


def _expected(view: View) -> Iterator[str]:
    for item in view.partition(keys.CLUSTERS):
        cluster = str(item["cluster"])
        config = items.read_config(view.at(*keys.cluster_config(cluster)) or {})
        seats = sum(state.key.cluster == cluster and state.registered for state in view.nodes)
        partition = f"CLUSTER#{cluster}#"
        roster = sum(str(one["pk"]).startswith(partition) and str(one["sk"]).startswith("NODE#") for one in view.items)
        if not config.expected == seats == roster:
            yield f"{cluster} expects {config.expected} nodes, has {seats}, lists {roster}"


INVARIANTS = (
    Invariant("a cluster's status is that of its nodes", _statuses),
    Invariant("a cluster counts its nodes right", _expected),
)
