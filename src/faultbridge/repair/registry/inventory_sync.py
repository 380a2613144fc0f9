"""Inventory sync: compares running instances with registered nodes, and updates the nodes.

For each group, a sync attaches instances of other controllers to nodes whose instance is gone, registers the other new
instances, takes nodes without an instance out of service or retires them, and updates metadata and roles. It does not
change the instance or status of a node while a repair controls the node. A new node is verified before it serves if its
faults open cases, unless it was launched before its group was first read: it may already run jobs.

An event of the provider only triggers a sync, which reads the current state; the next scheduled sync covers a missed
event.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from itertools import chain

from msgspec import Struct

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.instance_pairing import Pairing, VacantNode, pair
from faultbridge.model.cluster.config import ClusterConfig, Mode
from faultbridge.model.cluster.state import ProviderCondition, ProviderStatus
from faultbridge.model.enums import Actor, NodeStatus
from faultbridge.model.errors import FaultbridgeError, IllegalTransition, Rejected, UnknownName
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Alias, Instance, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Key
from faultbridge.model.values import replace
from faultbridge.record.ports.inventory import GroupMember, Inventory, NodeListing
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import query_all, shard_rows
from faultbridge.repair.registry.groups import Group, KnownGroups, SyncResult, combine, vacancy_of
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.repair.registry.retirement import Retirement, is_replaced, owes_no_successor
from faultbridge.repair.registry.roster import block_of, new_metadata, retired_row, rows_by_group

MAX_DESCRIBED = 500
"""How many instances of one group a sync describes at most; later syncs describe the others."""


class SyncInventory(Struct, frozen=True):
    """Compares each cluster's nodes with the instances of its provider's groups; updates the nodes."""

    table: Table
    registration: Registration
    replacement_detection: ReplacementDetection
    inventories: Mapping[str, Inventory]
    provider_check: ProviderCheck
    retirement: Retirement
    node_listing: NodeListing | None = None

    def sync_all(self) -> tuple[SyncResult, ...]:
        """Synchronize the nodes of every cluster whose provider has an inventory."""
        clusters = [str(row["cluster"]) for row in query_all(self.table, keys.CLUSTERS)]
        found = self.table.get_many(keys.cluster_config(cluster) for cluster in clusters)
        configs = [items.read_config(item) for item in found.values()]
        return tuple(self.sync(config) for config in configs if config.provider in self.inventories)

    def sync(
        self,
        config: ClusterConfig,
        only: Collection[str] | None = None,
        reported: Sequence[ProviderCondition] = (),
    ) -> SyncResult:
        """Synchronize all groups of a cluster, or only those in `only`, and return what changed.

        `reported` are the failed launches that provider events reported. The sync stops if the table, the orchestrator
        or the provider's inventory cannot be read. If only the provider's own status report cannot be read, the sync
        continues. The result contains the error in both situations.
        """
        result = SyncResult(config.cluster)
        with self._source(config, result):
            rows, status = rows_by_group(shard_rows(self.table, config, keys.NODE_ROW)), ProviderStatus()
            ends: Mapping[str, datetime] = {}
            with self._source(config, result):
                ends = self.provider_check.block_ends(config, chain.from_iterable(rows.values()))
            with self._source(config, result):
                grouped = {one: rows[one] for one in rows if one}
                status = self.provider_check.record_status(config, grouped, reported, ends)
                config = self.registration.cluster(config.cluster)
            listed = self._orchestrator_instances(config)
            with self._source(config, result):
                self.provider_check.record_cordons(config, chain.from_iterable(rows.values()), listed)
            for group in self._groups(config, rows, only):
                result.nodes += len(group.rows)
                vacancies = self._vacancies(config, group.missing)
                self._fill(config, group, vacancies, listed, result)
                now = self.registration.clock.now()
                if vacancies and not group.unassigned:
                    self._retire_with_block(config, group, vacancies, {one for one in ends if ends[one] <= now}, result)
                if is_replaced(config, group, status, now):
                    self.retirement.retire_vacant(config, group, vacancies, result)
                elif vacancies and owes_no_successor(config, group, status, now):
                    grace = self.replacement_detection.rulebook.policy(config).limits.update_grace
                    self.retirement.retire_vacant(config, group, vacancies, result, now - grace)
                self._update(config, group, listed, result)
                for row in group.missing:
                    if row.get("retired") and row.get("instance") not in group.members:
                        self.table.write(retired_row(Key(str(row["pk"]), str(row["sk"])), keeps_instance=False))
        return result

    @contextmanager
    def _source(self, config: ClusterConfig, result: SyncResult) -> Iterator[None]:
        """Run a block; store the error of an unreadable source in the result, so that others continue."""
        try:
            yield
        except IllegalTransition:
            raise  # a bug, which must not look like a source that cannot be read
        except FaultbridgeError as error:
            log_cause("inventory_not_read", reason=str(error), level=logging.WARNING, cluster=config.cluster)
            result.source_errors.append(str(error))

    def _orchestrator_instances(self, config: ClusterConfig) -> Mapping[str, Instance]:
        """Return the orchestrator's descriptions by instance, with those that a tag opts out."""
        listed = dict(self.node_listing.list_instances(config)) if self.node_listing and config.eks_cluster else {}
        for instance in self.inventories[config.provider].opted_out(config):
            listed[instance] = replace(listed.get(instance, Instance(instance)), opted_out=True)
        return listed

    def _groups(
        self, config: ClusterConfig, rows: Mapping[str, Sequence[Item]], only: Collection[str] | None
    ) -> list[Group]:
        assigned = {str(row.get("instance")) for of_group in rows.values() for row in of_group}
        names = {group for group in rows if group and (only is None or group in only)}
        known_since = KnownGroups(self.table, self.registration.clock).known_since(config.cluster, names)
        found = self.inventories[config.provider].list_members(config, names) if names else {}
        groups = []
        for group, members in sorted(found.items()):
            free = {one: member for one, member in members.items() if member.serving and one not in assigned}
            groups.append(Group(group, known_since.get(group), rows[group], members, free))
        return groups

    def _fill(
        self,
        config: ClusterConfig,
        group: Group,
        vacancies: Sequence[VacantNode],
        listed: Mapping[str, Instance],
        result: SyncResult,
    ) -> None:
        missing = group.missing
        gone = sorted(str(row["node"]) for row in missing if row.get("instance"))
        result.gone += gone
        if gone:
            reason = f"their instances do not serve in group {group.name}"
            log_cause("nodes_gone", reason=reason, cluster=config.cluster, nodes=gone)
        if not missing and not group.unassigned:
            return
        described = self._describe(config, group, group.unassigned)
        instances = {one.instance_id: combine(one, listed.get(one.instance_id)) for one in described}
        pairing = pair(vacancies, described)
        result.waiting += pairing.waiting
        self._assign(config, group, pairing, instances, result)
        filled = {node for node, _ in pairing.assigned}
        former = {str(row["node"]): row.get("instance") for row in missing}
        for vacancy in vacancies:
            if vacancy.open and former[vacancy.node] and vacancy.node not in filled:
                self.replacement_detection.vacate(config, vacancy.node, str(former[vacancy.node]))

    def _retire_with_block(
        self,
        config: ClusterConfig,
        group: Group,
        vacancies: Sequence[VacantNode],
        ended: AbstractSet[str],
        result: SyncResult,
    ) -> None:
        """Retire the vacant nodes whose capacity block has ended: they get no successor."""
        blocks = {str(row["node"]): block_of(row) for row in group.missing}
        for block in sorted(ended & {block for block in blocks.values() if block}):
            of_block = [one for one in vacancies if blocks.get(one.node) == block]
            self.retirement.retire_vacant(config, group, of_block, result, reason=f"capacity block {block} has ended")

    def _assign(
        self,
        config: ClusterConfig,
        group: Group,
        pairing: Pairing,
        instances: Mapping[str, Instance],
        result: SyncResult,
    ) -> None:
        for node, instance_id in pairing.assigned:
            try:
                if self.replacement_detection.attach_replacement(config, node, instances[instance_id]):
                    result.replaced_externally.append(node)
            except Rejected as error:
                _refuse(config, instance_id, error, result)
        for instance_id in pairing.added:
            new = NewNode.of_instance(instances[instance_id])
            verify = self._rules_of_verification(config, group, instances[instance_id])
            try:
                self.registration.add_node(config.cluster, new, Actor.INVENTORY, verify=verify)
            except Rejected as error:
                _refuse(config, instance_id, error, result)
            else:
                result.added.append(new.name)

    def _rules_of_verification(self, config: ClusterConfig, group: Group, instance: Instance) -> Rules | None:
        if config.mode is not Mode.ACT or not config.opens_cases or instance.opted_out:
            return None
        return self.replacement_detection.rulebook.rules(config) if group.is_joined_by(instance) else None

    def _vacancies(self, config: ClusterConfig, missing: Sequence[Item]) -> list[VacantNode]:
        if not missing:
            return []
        state_keys = {str(row["node"]): keys.node_state(NodeKey(config.cluster, str(row["node"]))) for row in missing}
        found = self.table.get_many(state_keys.values())
        instances = [str(row["instance"]) for row in missing if row.get("instance")]
        gone = self.inventories[config.provider].gone(config, instances) if instances else frozenset()
        states = {
            node: items.read_state(NodeKey(config.cluster, node), found.get(at)) for node, at in state_keys.items()
        }
        in_use = [row for row in missing if states[str(row["node"])].status is not NodeStatus.RETIRED]
        return [vacancy_of(row, states[str(row["node"])], gone) for row in in_use]

    def _update(self, config: ClusterConfig, group: Group, listed: Mapping[str, Instance], result: SyncResult) -> None:
        undescribed = [str(row["instance"]) for row in group.present if row.get("described") != row.get("instance")]
        described = self._describe(config, group, {one: group.members[one] for one in undescribed})
        instances = {one.instance_id: one for one in described}
        for row in group.present:
            instance_id = str(row["instance"])
            orchestrator, provider = listed.get(instance_id), instances.get(instance_id)
            instance = combine(provider, orchestrator) if provider else new_metadata(row, orchestrator)
            node = str(row["node"])
            if instance is not None and self.replacement_detection.update_instance(config, node, instance):
                result.updated.append(node)

    def _describe(self, config: ClusterConfig, group: Group, wanted: Mapping[str, GroupMember]) -> Sequence[Instance]:
        """Describe the first MAX_DESCRIBED members and pin their roles; later syncs do the others."""
        some = dict(list(wanted.items())[:MAX_DESCRIBED])
        described = self.inventories[config.provider].describe(config, group.name, some) if some else ()
        self.registration.pin_roles(config, described)
        return described


def _refuse(config: ClusterConfig, instance_id: str, error: Rejected, result: SyncResult) -> None:
    log_cause("node_refused", reason=str(error), level=logging.WARNING, cluster=config.cluster, instance_id=instance_id)
    result.refused[instance_id] = error.reason


ARN = "arn:"


class EventOrigin(Struct, frozen=True):
    """The AWS account and the HyperPod cluster that a provider's event names; None for a missing value."""

    account: str | None = None
    hyperpod_cluster: str | None = None
    hyperpod_arn: str | None = None

    def names(self, config: ClusterConfig) -> bool:
        """Return whether the event names this cluster's HyperPod cluster, and no other AWS account."""
        registered = config.hyperpod_cluster
        named = registered is not None and registered in {self.hyperpod_cluster, self.hyperpod_arn}
        return named and self.may_be(config)

    def may_be(self, config: ClusterConfig) -> bool:
        """Return whether the event names no other HyperPod cluster and no other AWS account."""
        registered = config.hyperpod_cluster
        named = self.hyperpod_arn if registered and registered.startswith(ARN) else self.hyperpod_cluster
        other_cluster = bool(registered and named) and registered != named
        role = config.provider_role.arn if config.provider_role else None
        other_account = bool(role and self.account) and f":{self.account}:" not in str(role)
        return not other_cluster and not other_account


def origin_of(event: Mapping[str, object]) -> EventOrigin:
    """Return the account and cluster that an event names in its envelope and its details."""
    parts = tuple(parts_of(event))
    return EventOrigin(_first([event], "account"), _first(parts, "ClusterName"), _first(parts, "ClusterArn"))


def parts_of(event: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the parts of an event that may name a cluster, a group or an instance."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        return
    yield detail
    inner, listed = detail.get("EventDetails"), detail.get("InstanceGroups")
    if isinstance(inner, Mapping):
        yield inner
    if isinstance(listed, list):
        yield from (one for one in listed if isinstance(one, Mapping))


def _first(parts: Iterable[Mapping[str, object]], name: str) -> str | None:
    return next((str(part[name]) for part in parts if part.get(name)), None)


# Fields of `detail` that contain an instance id or a group name: EC2, Auto Scaling, HyperPod.
INSTANCE_FIELDS = ("instance-id", "EC2InstanceId", "InstanceId")
GROUP_FIELDS = ("AutoScalingGroupName", "InstanceGroupName")

BLOCK_FIELDS = ("capacity-reservation-id",)
ALL_GROUPS = "*"

ReadFailure = Callable[[Mapping[str, object]], ProviderCondition | None]
"""Reads a failed launch from an event; None if it contains none."""


class InventoryEventHandler(Struct, frozen=True):
    """Starts at most one sync of each cluster after a batch of provider events."""

    table: Table
    sync: SyncInventory
    read_failure: ReadFailure = lambda _event: None

    def sync_named_groups(self, events: Iterable[Mapping[str, object]]) -> tuple[SyncResult, ...]:
        """Sync the groups that events name, or whose instances they name; return the results.

        An event of a capacity block syncs all groups of the clusters in its account.
        """
        events = tuple(events)
        failures = [(origin_of(event), failure) for event in events if (failure := self.read_failure(event))]
        origins: defaultdict[str, set[EventOrigin]] = defaultdict(set)
        for event in events:
            for group in _named(event, GROUP_FIELDS):
                origins[group].add(origin_of(event))
        groups: defaultdict[str, dict[str, set[EventOrigin] | None]] = defaultdict(dict)
        for group, clusters in KnownGroups(self.table, self.sync.registration.clock).clusters_with(origins).items():
            for cluster in clusters:
                groups[cluster][group] = origins[group]
        for key, group in self._groups_of_nodes({one for event in events for one in _named(event, INSTANCE_FIELDS)}):
            groups[key.cluster][group] = None
        blocks = {origin_of(event) for event in events if any(_named(event, BLOCK_FIELDS))}
        if blocks:
            # The event of a capacity block names no group: the nodes of any cluster may run in it.
            for row in query_all(self.table, keys.CLUSTERS):
                groups[str(row["cluster"])][ALL_GROUPS] = blocks
        synced = (self._sync(cluster, named, failures) for cluster, named in sorted(groups.items()))
        return tuple(result for result in synced if result is not None)

    def _groups_of_nodes(self, instances: Iterable[str]) -> Iterator[tuple[NodeKey, str]]:
        """Yield the nodes that these instances back or backed, with their groups."""
        aliases = {keys.alias(*Alias("instance", one)) for one in instances}
        found = self.table.get_many(aliases) if aliases else {}
        state_keys = {keys.node_state(key): key for key in (items.read_alias(one).key for one in found.values())}
        states = self.table.get_many(state_keys) if state_keys else {}
        for state_key, key in state_keys.items():
            group = items.read_state(key, states.get(state_key)).placement.group
            if group:
                yield key, group

    def _sync(
        self,
        cluster: str,
        groups: Mapping[str, Iterable[EventOrigin] | None],
        failures: Iterable[tuple[EventOrigin, ProviderCondition]],
    ) -> SyncResult | None:
        """Sync those groups of a cluster that the events may be about; origins None: surely its own."""
        try:
            config = self.sync.registration.cluster(cluster)
        except UnknownName as error:
            log_cause("inventory_event_ignored", reason=str(error), level=logging.WARNING, cluster=cluster)
            return None
        names = {
            group
            for group, origins in groups.items()
            if origins is None or any(origin.may_be(config) for origin in origins)
        }
        if not names:
            return None
        if config.provider not in self.sync.inventories:
            return SyncResult(cluster)
        only = None if ALL_GROUPS in names else names
        return self.sync.sync(config, only, [failure for origin, failure in failures if origin.names(config)])


def _named(event: Mapping[str, object], fields: Iterable[str]) -> Iterator[str]:
    for part in parts_of(event):
        yield from (str(part[name]) for name in fields if part.get(name))
