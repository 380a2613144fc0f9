"""Directory: clusters, nodes and cases as they are now, for whoever looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.domain.cases import Case
from faultbridge.domain.clusters import ClusterConfig, ClusterState, Control
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.spares import Spare
from faultbridge.errors import Rejected
from faultbridge.ledger.queries import query_all, shard_rows
from faultbridge.pipeline.decide.phase_durations import durations
from faultbridge.ports import Table
from faultbridge.repair.spares.pool import read_spares
from faultbridge.storage import items, keys
from faultbridge.storage.writes import CASES

ROSTER = "NODE#"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster: how it is registered, how it is doing, who holds its repair slots and who waits in its pool."""

    config: ClusterConfig
    state: ClusterState
    control: Control
    pool: tuple[Spare, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseView:
    """A case and whose it is."""

    case: Case
    key: NodeKey

    def phases(self, now: datetime) -> dict[str, int]:
        """Return how long it spent in each phase so far, in milliseconds, in the order in which it reached them."""
        return durations(self.case, self.case.closed_at or now)

    def age(self, now: datetime) -> int:
        """Return how long it lived so far, in milliseconds."""
        return ((self.case.closed_at or now) - self.case.opened_at) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Views:
    """Looks things up by key and index; it writes nothing."""

    table: Table

    def clusters(self) -> tuple[ClusterView, ...]:
        """List every cluster by name."""
        return tuple(self.cluster(str(row["cluster"])) for row in query_all(self.table, keys.CLUSTERS))

    def cluster(self, cluster: str) -> ClusterView:
        """Show a cluster; `unknown_cluster` when nobody registered it."""
        places = (keys.cluster_config(cluster), keys.cluster_state(cluster), keys.cluster_control(cluster))
        found = self.table.get_many(places)
        config, state, control = (found.get(place) for place in places)
        if config is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered")
        registered = items.read_config(config)
        return ClusterView(
            registered,
            items.read_cluster(cluster, state),
            items.read_control(cluster, control),
            tuple(read_spares(self.table, cluster)) if registered.spare_group else (),
        )

    def nodes(self, cluster: str) -> tuple[NodeState, ...]:
        """List every node of a cluster's roster, by name."""
        config = self.cluster(cluster).config
        seats = [NodeKey(cluster, str(row["node"])) for row in shard_rows(self.table, config, ROSTER)]
        places = {keys.node_state(key): key for key in seats}
        found = self.table.get_many(places)
        states = (items.read_state(key, found.get(place)) for place, key in places.items())
        return tuple(sorted(states, key=lambda state: state.key.node))

    def page(self, cluster: str, after: str, limit: int) -> tuple[NodeState, ...]:
        """List so many nodes by name, those after a name; only their states are read."""
        config = self.cluster(cluster).config
        names = sorted(name for row in shard_rows(self.table, config, ROSTER) if (name := str(row["node"])) > after)
        places = {keys.node_state(key): key for key in (NodeKey(cluster, name) for name in names[:limit])}
        found = self.table.get_many(places)
        return tuple(items.read_state(key, found.get(place)) for place, key in places.items())

    def node(self, key: NodeKey) -> NodeState:
        """Show a node; `unknown_node` when nobody registered it."""
        state = items.read_state(key, self.table.get(keys.node_state(key)))
        if not state.registered:
            raise Rejected("unknown_node", f"{key.stream} is not registered")
        return state

    def cases(self, cluster: str, statuses: Sequence[CaseStatus] = ()) -> tuple[CaseView, ...]:
        """List the cases of a cluster, oldest first, those that need somebody when no status is named."""
        wanted = statuses or tuple(status for status in CaseStatus if status.live)
        config = self.cluster(cluster).config
        ids = [
            str(row["case_id"])
            for shard in range(config.shards)
            for status in dict.fromkeys(wanted)
            for row in query_all(self.table, keys.cases_of(cluster, shard), prefix=f"{status.value}#", index=CASES)
        ]
        found = (view for view in self._read(ids) if view.case.status in wanted)
        return tuple(sorted(found, key=lambda view: (view.case.opened_at, view.case.id)))

    def case(self, case_id: str) -> CaseView:
        """Show a case; `unknown_case` when there is none of this id."""
        view = next(self._read([case_id]), None)
        if view is None:
            raise Rejected("unknown_case", f"there is no case {case_id}")
        return view

    def _read(self, ids: Sequence[str]) -> Iterator[CaseView]:
        # The index may lag behind, the items do not.
        for item in self.table.get_many(keys.case(one) for one in ids).values():
            yield CaseView(items.read_case(item), NodeKey(str(item["cluster"]), str(item["node"])))
