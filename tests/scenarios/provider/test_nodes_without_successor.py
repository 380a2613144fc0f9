"""A node whose instance is gone and that gets no successor: its group is smaller, or does not launch one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import ClusterConfig, GroupUpdate, Mode
from faultbridge.model.cluster.state import GroupStatus, ProviderStatus
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.model.policy import Limits
from faultbridge.model.recorded import read_event
from faultbridge.model.values import replace
from faultbridge.record.ports.inventory import GroupMember
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.repair.registry.groups import Group
from faultbridge.repair.registry.retirement import owes_no_successor
from faultbridge.serve.pager.page import PageState
from faultbridge.serve.pager.rules import rules_for
from tests.builders import NOON
from tests.scenarios.provider.builders import last
from tests.scenarios.provider.growth import Growth
from tests.scenarios.world import CLUSTER, GROUP

UPDATE = GroupUpdate("refresh-1", NOON)
FIRST = "i-00000000000000001"


def scaled_in(desired: int | None = None) -> Growth:
    """Return a cluster one of whose two instances is gone; `desired` is the size of its group, 1 by default."""
    growth = Growth()
    growth.fakes.desired[GROUP] = desired or 1
    growth.world.fleet.remove(FIRST)
    growth.run_inventory()
    assert growth.world.status(1) is NodeStatus.PROVISIONING
    return growth


def run_for(growth: Growth, span: timedelta) -> None:
    """Run the inventory every five minutes for a time, as the schedule does."""
    until = growth.world.clock.now() + span
    while growth.world.clock.now() < until:
        growth.world.advance_minutes(5)
        growth.run_inventory()


def pages(growth: Growth) -> list[tuple[str, PageUrgency]]:
    """Return the pages that were triggered for the first node, oldest first."""
    rules = [rule for body in growth.world.bodies(1) for rule in rules_for(read_event(body))]
    return [(rule.kind, rule.urgency) for rule in rules if rule.state is PageState.TRIGGERED]


def test_a_node_that_a_scale_in_left_without_an_instance_is_retired_and_no_longer_expected() -> None:
    growth = scaled_in()
    run_for(growth, timedelta(minutes=30))
    assert growth.world.status(1) is NodeStatus.RETIRED
    assert growth.registration.cluster(CLUSTER).expected == 1
    growth.world.advance_minutes()
    assert last(growth) == ("healthy", 1, 1)
    assert (growth.world.node(1).case, pages(growth)) == (None, [])


def test_the_repair_of_a_node_that_lost_its_instance_while_its_case_waited_waits_for_the_successor() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 2
    growth.world.pause_repairs(paused=True)
    growth.world.fault_and_react(1)
    growth.world.fleet.remove(FIRST)
    growth.run_inventory()
    assert (growth.world.status(1), growth.world.case(1).status) == (NodeStatus.PROVISIONING, CaseStatus.QUEUED)
    growth.world.pause_repairs(paused=False)
    growth.world.until(lambda: growth.world.case(1).status is CaseStatus.IN_PROGRESS)
    (new,) = growth.launch()
    growth.world.until(growth.world.case_is(CaseStatus.RESOLVED, 1))
    node = growth.world.node(1)
    assert (node.status, node.incarnation.instance_id, growth.world.case(1).attempts) == ("healthy", new, 1)  # type: ignore[union-attr]


def test_a_node_without_an_instance_is_kept_for_the_grace_period_in_which_its_group_may_grow_again() -> None:
    growth = scaled_in()
    run_for(growth, Limits().update_grace - timedelta(minutes=5))
    assert growth.world.status(1) is NodeStatus.PROVISIONING
    growth.fakes.desired[GROUP] = 2
    (new,) = growth.launch()
    run_for(growth, timedelta(hours=1))
    node = growth.world.node(1)
    assert (node.status, node.incarnation.instance_id, node.incarnation.gone_since) == ("healthy", new, None)  # type: ignore[union-attr]
    assert growth.registration.cluster(CLUSTER).expected == 2


def test_a_node_whose_group_still_owes_a_successor_is_escalated_once_after_the_launch_deadline() -> None:
    growth = scaled_in(desired=2)
    run_for(growth, Limits().launch_deadline - timedelta(minutes=5))
    assert (growth.world.status(1), growth.world.node(1).case) == (NodeStatus.PROVISIONING, None)
    run_for(growth, timedelta(hours=4))
    case = growth.world.case(1)
    assert (case.status, case.code, case.attempts) == (CaseStatus.ESCALATED, "cloud.instance_gone", 0)
    assert case.reason == f"{FIRST} is gone, and its group launched no successor within 8 hours"
    assert pages(growth) == [("escalated", PageUrgency.URGENT)]
    assert growth.registration.cluster(CLUSTER).expected == 2


def escalated() -> Growth:
    growth = scaled_in(desired=2)
    run_for(growth, Limits().launch_deadline + timedelta(minutes=10))
    assert growth.world.case(1).status is CaseStatus.ESCALATED
    return growth


def test_a_late_successor_of_an_escalated_node_is_verified_and_closes_the_case() -> None:
    growth = escalated()
    (new,) = growth.launch()
    run_for(growth, timedelta(hours=1))
    node = growth.world.node(1)
    assert (node.status, node.incarnation.instance_id) == (NodeStatus.HEALTHY, new)  # type: ignore[union-attr]
    assert growth.world.case(1).resolution is Resolution.EXTERNAL


def test_an_escalated_node_is_retired_once_its_group_is_made_smaller() -> None:
    growth = escalated()
    growth.fakes.desired[GROUP] = 1
    run_for(growth, timedelta(minutes=10))
    assert (growth.world.status(1), growth.world.case(1).resolution) == (NodeStatus.RETIRED, Resolution.RETIRED)
    assert growth.registration.cluster(CLUSTER).expected == 1


def test_no_node_is_retired_for_a_scale_in_while_the_owner_updates_the_group() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 1
    growth.fakes.updates[GROUP] = UPDATE
    growth.run_inventory()
    growth.world.fleet.remove(FIRST)
    growth.run_inventory()
    config = growth.registration.cluster(CLUSTER)
    group = Group(GROUP, None, (), {"i-2": GroupMember("i-2")}, {})
    status = ProviderStatus(groups={GROUP: GroupStatus(1, complete=True)})
    now = growth.world.clock.now()
    assert not owes_no_successor(config, group, status, now)
    assert owes_no_successor(replace(config, update_holds=()), group, status, now)


@pytest.mark.parametrize(
    ("status", "unassigned"),
    [
        (GroupStatus(2, complete=True), ()),
        (GroupStatus(1, complete=False), ()),
        (GroupStatus(1, complete=True), ("i-2",)),
    ],
    ids=["fewer serve than its status says", "incomplete", "an instance without a node"],
)
def test_a_group_that_may_still_attach_or_launch_an_instance_owes_a_successor(
    status: GroupStatus, unassigned: tuple[str, ...]
) -> None:
    members = {"i-2": GroupMember("i-2")}
    group = Group(GROUP, None, (), members, {name: members[name] for name in unassigned})
    assert not owes_no_successor(ClusterConfig(CLUSTER), group, ProviderStatus(groups={GROUP: status}), NOON)


def test_the_loss_of_the_instance_is_the_cause_of_the_escalated_case() -> None:
    growth = scaled_in(desired=2)
    run_for(growth, timedelta(hours=12))
    lost, opened = growth.world.bodies(1)[-3:-1]
    assert (lost["data"]["to"], opened["data"]["from"], opened["data"]["to"]) == ("provisioning", None, "open")
    assert opened["metadata"]["causation_id"] == lost["metadata"]["event_id"]


def test_an_ignored_node_without_a_successor_opens_no_case() -> None:
    growth = scaled_in(desired=2)
    NodeOrders(growth.world.append, growth.world.rulebook).ignore(growth.world.key(1), OperatorOrder("ada"), None)
    run_for(growth, timedelta(hours=12))
    assert growth.world.node(1).case is None


def test_a_cluster_that_is_only_observed_opens_no_case_for_a_node_without_a_successor() -> None:
    growth = scaled_in(desired=2)
    growth.world.set_mode(Mode.OBSERVE)
    run_for(growth, timedelta(hours=12))
    assert (growth.world.status(1), growth.world.node(1).case) == (NodeStatus.PROVISIONING, None)
