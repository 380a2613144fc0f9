"""Ports that list instances: the groups of a provider, and the nodes of an orchestrator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import ProviderStatus, RepairSetting
from faultbridge.model.nodes import Instance

OPT_OUT_TAG = "faultbridge:opt-out"
"""The tag that excludes an instance from repair; it applies only with the value `true`."""


class GroupMember(Struct, frozen=True):
    """What a provider's listing of a group contains about one instance.

    A listing is cheap and contains no names and no failure domains. `Inventory.describe` returns the complete
    `Instance`. `serving` is False while an instance starts, stops or is in standby.
    """

    instance_id: str
    zone: str | None = None
    serving: bool = True
    slot: str | None = None


class Inventory(Protocol):
    """Lists the instances of a cluster's groups, through the provider's API."""

    def list_members(self, config: ClusterConfig, groups: Collection[str]) -> Mapping[str, Mapping[str, GroupMember]]:
        """Return the members of each group by instance id. A group that does not exist is not included."""
        ...

    def describe(self, config: ClusterConfig, group: str, members: Mapping[str, GroupMember]) -> tuple[Instance, ...]:
        """Return descriptions of group members, sorted by name. A provider may leave out some members."""
        ...

    def serving_instances(self, config: ClusterConfig, group: str) -> tuple[Instance, ...]:
        """Return the serving instances of a group, sorted by name.

        An unknown group raises Rejected `unknown_group`.
        """
        ...

    def role_ids(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the ids of the IAM roles of these instances, as far as the provider can read them.

        The result is empty for a provider whose instances do not use the instance id as the session name of the role.
        """
        ...

    def gone(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the given instance ids that are terminating, terminated or unknown to the provider."""
        ...

    def opted_out(self, config: ClusterConfig) -> frozenset[str]:
        """Return the ids of the instances whose tag excludes them from repair."""
        ...

    def repairs_nodes(self, config: ClusterConfig) -> RepairSetting | None:
        """Return the provider's setting for automatic repair of nodes; None if it reports no setting."""
        ...

    def provider_status(self, config: ClusterConfig, groups: Collection[str]) -> ProviderStatus:
        """Return the provider's report about the cluster: conditions, repair setting, and status of groups.

        The status of every existing group in `groups` is included. A provider may include further groups of the
        cluster.
        """
        ...

    def block_ends(self, config: ClusterConfig) -> Mapping[str, datetime]:
        """Return when the capacity blocks that the account has now, or had shortly before, end, by each of their ids.

        EC2 terminates the instances of a block before its end. The result is empty for another provider.
        """
        ...


class NodeListing(Protocol):
    """Lists the nodes of a cluster, through its orchestrator's API."""

    def list_instances(self, config: ClusterConfig) -> Mapping[str, Instance]:
        """Return the instances that back the cluster's nodes, by instance id.

        Each instance has only its names, failure domains and opt-out of repairs. The result is empty for a cluster
        without EKS.
        """
        ...
