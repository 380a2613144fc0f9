"""Whether an update has replaced the vacant nodes of a group by other nodes, so that they are retired."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.model.cluster.config import ClusterConfig, UpdateHold
from faultbridge.model.cluster.state import GroupStatus, ProviderStatus
from faultbridge.record.ports.inventory import GroupMember
from faultbridge.repair.registry.groups import Group
from faultbridge.repair.registry.retirement import is_replaced
from tests.builders import NOON, after

RUNNING = UpdateHold("a", NOON, after(hours=6))
ENDED = UpdateHold("a", NOON, after(minutes=15), running=False)
COMPLETE = GroupStatus(2, complete=True)
SERVING = {name: GroupMember(name) for name in ("i-1", "i-2")}


def replaced(
    hold: UpdateHold = ENDED,
    status: GroupStatus = COMPLETE,
    members: dict[str, GroupMember] = SERVING,
    unassigned: tuple[str, ...] = (),
    at: datetime = NOON,
) -> bool:
    config = ClusterConfig("train-a", update_holds=(hold,))
    group = Group("a", NOON, (), members, {name: members[name] for name in unassigned})
    return is_replaced(config, group, ProviderStatus(groups={"a": status}), at)


def test_a_complete_group_whose_instances_all_have_nodes_needs_no_vacant_node_after_its_update() -> None:
    assert replaced()
    assert not replaced(unassigned=("i-2",))
    assert not replaced(status=GroupStatus(2, complete=False))
    assert not replaced(UpdateHold("others", NOON, after(hours=6)))


@pytest.mark.parametrize("left", [{"i-1": SERVING["i-1"]}, {**SERVING, "i-2": GroupMember("i-2", serving=False)}])
def test_a_group_with_fewer_serving_members_than_its_status_says_may_still_need_its_vacant_nodes(
    left: dict[str, GroupMember],
) -> None:
    assert not replaced(members=left)


@pytest.mark.parametrize(
    ("hold", "hours", "expected"), [(RUNNING, 5, True), (RUNNING, 6, False), (ENDED, 5, True)], ids=str
)
def test_the_hold_of_an_overdue_update_does_not_count_but_that_of_an_ended_one_does(
    hold: UpdateHold, hours: int, expected: bool
) -> None:
    assert replaced(hold, at=after(hours=hours)) is expected
