"""Instance pairing: decide which unassigned instance of a group belongs to which of its nodes.

A repair launches the successor of its node and attaches it. Pairing must not assign that instance to another node. It
therefore leaves the youngest instances unassigned: one for each vacant node that is under repair, or whose old instance
may still exist. A successor is launched after the old instance was released, so it is among the youngest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.nodes import Instance, NodeState

_UNKNOWN_LAUNCH = datetime.min.replace(tzinfo=UTC)
FOLLOW_STEP = "follow"
"""The step of an attempt that waits for the provider's own repair."""

_CONTROLLED_BY_REPAIR = frozenset({CaseStatus.IN_PROGRESS})


class VacantNode(Struct, frozen=True):
    """A node without a serving instance.

    `confirmed_gone` is True if the node has no instance, or if its instance is terminated or unknown to the provider.
    """

    node: str
    zone: str | None = None
    slot: str | None = None
    confirmed_gone: bool = True
    under_repair: bool = False
    gone_since: datetime | None = None

    @property
    def open(self) -> bool:
        """Return True if the former instance is gone and no repair runs: another instance may be attached."""
        return self.confirmed_gone and not self.under_repair


class Pairing(Struct, frozen=True):
    """The pairs of node and new instance, instances to add as nodes, and those that may be a repair's successor."""

    assigned: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def may_change_instance(state: NodeState) -> bool:
    """Return whether the inventory may change the instance: not of a node that is retired, replaced or in repair."""
    if state.status in {None, NodeStatus.RETIRED, NodeStatus.REPLACING}:
        return False
    case = state.live_case
    return case is None or case.status not in _CONTROLLED_BY_REPAIR or waits_for_provider(state)


def waits_for_provider(state: NodeState) -> bool:
    """Return whether the current attempt only waits while the provider itself repairs the node."""
    attempt = state.live_case.attempt if state.live_case else None
    return attempt is not None and attempt.step == FOLLOW_STEP and FOLLOW_STEP not in attempt.steps


def pair(vacant: Collection[VacantNode], unassigned: Iterable[Instance]) -> Pairing:
    """Pair the unassigned instances of one group with its vacant nodes.

    - An instance with a provider slot (the provider's permanent node id) is paired only with the node of that slot.
    - For each node without a slot that may not get an instance now, the youngest remaining instance without a slot is
      reserved.
    - The other nodes without a slot are taken in the order of their names. Each gets the oldest remaining instance in
      the node's zone, or else the oldest remaining instance. These instances have no slot.
    """
    oldest_first = sorted(
        unassigned, key=lambda instance: (instance.launched_at or _UNKNOWN_LAUNCH, instance.instance_id)
    )
    by_slot = _pair_by_slot(
        {node.slot: node for node in vacant if node.slot}, [one for one in oldest_first if one.slot]
    )
    by_age = _pair_by_age(
        sorted((node for node in vacant if not node.slot), key=lambda node: node.node),
        [one for one in oldest_first if not one.slot],
    )
    return Pairing(by_slot.assigned + by_age.assigned, by_slot.added + by_age.added, by_slot.waiting + by_age.waiting)


def _pair_by_slot(vacant: Mapping[str | None, VacantNode], unassigned: Iterable[Instance]) -> Pairing:
    assigned: list[tuple[str, str]] = []
    added: list[str] = []
    waiting: list[str] = []
    for instance in unassigned:
        node = vacant.get(instance.slot)
        if node is None:
            added.append(instance.instance_id)
        elif node.open:
            assigned.append((node.node, instance.instance_id))
        else:
            waiting.append(instance.instance_id)
    return Pairing(tuple(assigned), tuple(added), tuple(waiting))


def _pair_by_age(vacant: Sequence[VacantNode], unassigned: Sequence[Instance]) -> Pairing:
    closed = sum(1 for node in vacant if not node.open)
    available = max(len(unassigned) - closed, 0)
    offered, waiting = list(unassigned[:available]), unassigned[available:]
    assigned: list[tuple[str, str]] = []
    for node in vacant:
        if node.open and offered:
            chosen = next((one for one in offered if node.zone and one.zone == node.zone), offered[0])
            offered.remove(chosen)
            assigned.append((node.node, chosen.instance_id))
    added = tuple(one.instance_id for one in offered)
    return Pairing(tuple(assigned), added, tuple(one.instance_id for one in waiting))
