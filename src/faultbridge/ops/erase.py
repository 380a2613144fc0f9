"""Erase: everything that the table holds of a cluster. What was archived is deleted in the archive, by its prefix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.ledger.queries import query_all, shard_rows
from faultbridge.ledger.timeline import entry_data
from faultbridge.ports import Table
from faultbridge.registry.registration import NewNode, aliases_of
from faultbridge.storage import items, jobs, keys
from faultbridge.storage.writes import CASES, Delete, Key

ROSTER = "NODE#"


@dataclass(frozen=True, slots=True)
class Erase:
    """Deletes a cluster, its registration last, so that an interrupted erasure can be said again."""

    table: Table

    def __call__(self, cluster: str) -> int:
        """Delete every item of a cluster and return how many; `cluster_lives` while a case of it does."""
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered")
        config = items.read_config(found)
        seats = [self._seat(cluster, str(row["node"])) for row in shard_rows(self.table, config, ROSTER)]
        live = [state.key.node for state in seats if state.live_case is not None]
        if live:
            raise Rejected("cluster_lives", f"{len(live)} nodes have a live case, {live[0]} among them")
        erased = 0
        for key in self._keys(config, seats):
            self.table.write(Delete(key))
            erased += 1
        return erased

    def _seat(self, cluster: str, node: str) -> NodeState:
        key = NodeKey(cluster, node)
        return items.read_state(key, self.table.get(keys.node_state(key)))

    def _keys(self, config: ClusterConfig, seats: list[NodeState]) -> Iterator[Key]:
        cluster = config.cluster
        for state in seats:
            yield from self._of_seat(state)
        for shard in range(config.shards):
            for row in list(query_all(self.table, keys.cases_of(cluster, shard), index=CASES)):
                yield from self._partition(f"CASE#{row['case_id']}")
            yield from self._partition(keys.shard_partition(cluster, shard))
        yield from self._partition(keys.reject_partition(cluster))
        registration = keys.cluster_config(cluster)
        yield from (key for key in self._partition(keys.cluster_partition(cluster)) if key != registration)
        yield from (keys.cluster_listed(cluster), registration)

    def _of_seat(self, state: NodeState) -> Iterator[Key]:
        key = state.key
        instances = {*state.former_instances, state.incarnation.instance_id if state.incarnation else None} - {None}
        for instance in (None, *sorted(map(str, instances))):
            placement = NewNode(
                key.node, instance, aliases=state.placement.aliases, host_names=state.placement.host_names
            )
            for alias in aliases_of(key, placement):
                found = self.table.get(keys.alias(*alias))
                if found is not None and items.read_alias(found).key == key:
                    yield keys.alias(*alias)
        for item in list(query_all(self.table, keys.node_partition(key))):
            if "body" in item and entry_data(item).get("job_id"):
                yield from self._partition(jobs.job_partition(key.cluster, str(entry_data(item)["job_id"])))
            yield Key(str(item["pk"]), str(item["sk"]))

    def _partition(self, pk: str) -> list[Key]:
        return [Key(str(item["pk"]), str(item["sk"])) for item in query_all(self.table, pk)]
