"""Erase: deletes a cluster and its nodes from the table.

Claims of instances, and records of pages about the cluster itself, remain in the table. Archived objects remain, too:
an operator deletes these in the archive bucket, by the prefix of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Rejected
from faultbridge.model.event_data import Component, FaultData
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import devices, heartbeats, items, jobs, keys
from faultbridge.model.storage.codec import load
from faultbridge.model.storage.devices import SeenDevice, SeenDevices
from faultbridge.model.storage.writes import CASES, Delete, Key
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import cluster_config, node_names, query_all
from faultbridge.record.timeline import entry_data
from faultbridge.repair.registry.roster import aliases_of


@dataclass(frozen=True, slots=True)
class Erase:
    """Deletes a cluster from the table.

    The registration is deleted last, so that an interrupted erasure can be repeated.
    """

    table: Table

    def erase(self, cluster: str) -> int:
        """Delete a cluster and return the number of deleted items.

        Raises Rejected `cluster_lives` if a node of the cluster has a live case, which is a case that has not ended.
        Raises Rejected `unknown_cluster` if the cluster is not registered.
        """
        config = cluster_config(self.table, cluster)
        states = [self._read_node(cluster, node) for node in node_names(self.table, config)]
        live = [state.key.node for state in states if state.live_case is not None]
        if live:
            text = f"{len(live)} nodes of {cluster} have a live case, for example {live[0]}; close these cases first"
            raise Rejected("cluster_lives", text)
        erased = 0
        for key in self._keys(config, states):
            self.table.write(Delete(key))
            erased += 1
        return erased

    def _read_node(self, cluster: str, node: str) -> NodeState:
        key = NodeKey(cluster, node)
        return items.read_state(key, self.table.get(keys.node_state(key)))

    def _keys(self, config: ClusterConfig, states: list[NodeState]) -> Iterator[Key]:
        """Yield the keys of the items to delete; the key of the cluster's registration is the last one."""
        cluster = config.cluster
        for state in states:
            yield from self._keys_of_node(state)
        for shard in range(config.shards):
            for row in list(query_all(self.table, keys.cases_of(cluster, shard), index=CASES)):
                case = keys.case(str(row["case_id"]))
                # Last, because a repeated erasure finds the partition by it.
                yield from (key for key in self._partition(case.pk) if key != case)
                yield case
            yield from self._partition(keys.shard_partition(cluster, shard))
        for shard in range(devices.FAULTY_SHARDS):
            yield from self._partition(devices.faulty_partition(cluster, shard))
        yield from self._partition(keys.reject_partition(cluster))
        yield from self._partition(heartbeats.partition(cluster))
        registration = keys.cluster_config(cluster)
        yield from (key for key in self._partition(keys.cluster_partition(cluster)) if key != registration)
        yield from (keys.cluster_listed(cluster), registration)

    def _keys_of_node(self, state: NodeState) -> Iterator[Key]:
        """Yield the keys of a node's items: aliases, jobs, sightings and links of devices, timeline and state."""
        key = state.key
        names = (key.node, *state.placement.aliases, *state.placement.host_names)
        instances = {*state.former_instances, state.incarnation.instance_id if state.incarnation else None} - {None}
        for instance in (None, *sorted(map(str, instances))):
            for alias in aliases_of(key, names, instance):
                found = self.table.get(keys.alias(*alias))
                if found is not None and items.read_alias(found).key == key:
                    yield keys.alias(*alias)
        for item in list(query_all(self.table, keys.node_partition(key))):
            seen: list[Component | SeenDevice] = []
            if "body" in item:
                data = entry_data(item)
                if job_id := getattr(data, "job_id", None):
                    yield from self._partition(jobs.job_partition(key.cluster, job_id))
                seen += [data.component] if isinstance(data, FaultData) else []
            elif str(item["sk"]).startswith(devices.SEEN):
                listed = load(SeenDevices, item)
                yield from listed.sightings(key.stream)
                seen += listed.devices
            for one in seen:
                if one.uuid and one.serial and not self._in_another_cluster(key.cluster, one.uuid, one.serial):
                    yield keys.device_link(one.uuid)
            yield Key(str(item["pk"]), str(item["sk"]))

    def _in_another_cluster(self, cluster: str, uuid: str, serial: str) -> bool:
        """Return whether another cluster than `cluster` has seen a device or recorded a fault of it.

        If so, the item that maps the device's `uuid` to its `serial` must be kept.
        """
        sightings = query_all(self.table, keys.device(serial), up_to=devices.LAST_SIGHTING)
        if any(row["cluster"] != cluster and row["uuid"] in {None, uuid} for row in sightings):
            return True
        others = {str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS)} - {cluster}
        return bool(self.table.get_many(devices.faulty_device(other, serial) for other in sorted(others)))

    def _partition(self, pk: str) -> list[Key]:
        return [Key(str(item["pk"]), str(item["sk"])) for item in query_all(self.table, pk)]
