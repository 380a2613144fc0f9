"""Groups: compares the instances of a provider's group with the nodes that are registered in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.instances import Instance
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.instance_pairing import VacantNode, may_change_instance
from faultbridge.registry.instances import GroupMember
from faultbridge.storage.writes import Item


@dataclass(frozen=True, slots=True)
class Group:
    """One group: the roster rows of its nodes, its members, and its unassigned serving members.

    `known_since` is when a sync first read it, or None if this sync is the first one.
    """

    name: str
    known_since: datetime | None
    rows: Sequence[Item]
    members: Mapping[str, GroupMember]
    unassigned: Mapping[str, GroupMember]

    @property
    def present(self) -> list[Item]:
        """Return the rows whose instance is a member of the group."""
        return [row for row in self.rows if row.get("instance") in self.members]

    @property
    def departed(self) -> list[Item]:
        """Return the rows of retired nodes whose instance left the group."""
        return [row for row in self.missing if row.get("retired") and row.get("instance") not in self.members]

    def is_joined_by(self, instance: Instance) -> bool:
        """Return whether an instance was launched after the group was known, so that it has never served."""
        launched, known_since = instance.launched_at, self.known_since
        # Launch times are whole seconds.
        return bool(launched and known_since and launched >= known_since.replace(microsecond=0))

    @property
    def missing(self) -> list[Item]:
        """Return the rows without an instance, and those whose instance is not serving."""
        serving = {one for one, member in self.members.items() if member.serving}
        return [row for row in self.rows if row.get("instance") not in serving]


def unassigned_members(members: Mapping[str, GroupMember], assigned: set[str]) -> dict[str, GroupMember]:
    """Return the serving group members whose instance is not assigned to a node."""
    return {one: member for one, member in members.items() if member.serving and one not in assigned}


def vacancy_of(row: Item, state: NodeState, gone: Collection[str]) -> VacantNode:
    """Return a node without a serving instance in the form that `pair` needs to find an instance for it."""
    instance = row.get("instance")
    return VacantNode(
        node=str(row["node"]),
        zone=str(row["zone"]) if row.get("zone") else None,
        slot=str(row["slot"]) if row.get("slot") else None,
        confirmed_gone=not instance or str(instance) in gone,
        under_repair=not may_change_instance(state),
    )
