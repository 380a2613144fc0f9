"""Updates of groups: nodes that leave on purpose open no case and send no page; repairs wait for the update's end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decide.instance_pairing import VacantNode
from faultbridge.model.cases import INSTANCE_ADDED
from faultbridge.model.cluster.config import GroupUpdate, RepairOwner
from faultbridge.model.enums import CaseStatus, ConditionKind, NodeStatus, Resolution, WaitingFor
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Limits
from faultbridge.model.recorded import read_event
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.repair.registry.groups import Group, SyncResult
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.registry.replacement_detection import CODE as INSTANCE_REPLACED
from faultbridge.serve.pager.page import PageState
from faultbridge.serve.pager.rules import rules_for
from tests.hyperpod import GROUP as INSTANCE_GROUP
from tests.scenarios.provider.growth import BAD, RELEASE, Growth
from tests.scenarios.provider.hyperpod_world import hyperpod_world
from tests.scenarios.world import CLUSTER, GROUP

REFRESH = GroupUpdate("instance refresh 08b91cf7 replaces its instances")
DEADLINE = timedelta(hours=6)
GRACE = timedelta(minutes=15)


class Update(Growth):
    """A cluster whose group keeps its desired size while its owner updates it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.fakes.desired[GROUP] = len([*self.world.fleet.running(GROUP)])

    def begin(self) -> None:
        self.fakes.updates[GROUP] = REFRESH
        self.run_inventory()

    def end(self) -> None:
        del self.fakes.updates[GROUP]
        self.run_inventory()

    def disappear(self, number: int) -> None:
        """The instance of a node is gone, and nothing reports it."""
        fleet, instance = self.world.fleet, self.world.instance(number)
        fleet.instances[instance] = replace(fleet.instances[instance], alive=False)

    def terminate(self, number: int) -> None:
        """The owner terminates the instance of a node: EC2 reports it, and the heartbeats stop."""
        self.disappear(number)
        world = self.world
        world.fault(number, "cloud.instance_gone", source="ec2-event")
        world.fault_and_react(number, "host.silent", source="heartbeat")

    def events(self, number: int | None) -> list[dict[str, Any]]:
        return self.world.bodies(number)

    def pages(self, *numbers: int | None) -> list[str]:
        """The kinds of all pages that the events of nodes, or of the cluster (None), trigger."""
        found = [rule for number in numbers for one in self.events(number) for rule in rules_for(read_event(one))]
        return [rule.kind for rule in found if rule.state is PageState.TRIGGERED]

    def cases(self, number: int) -> list[str]:
        """The codes of all cases of a node, in the order in which they were opened."""
        opened = [one["data"] for one in self.events(number) if one["metadata"]["event_type"] == "Case Status Change"]
        return [str(one["cause"]["code"]) for one in opened if one["from"] is None]

    def conditions(self) -> list[tuple[ConditionKind, str | None]]:
        state = items.read_cluster(CLUSTER, self.world.table.get(keys.cluster_state(CLUSTER)))
        return [(one.kind, one.group) for one in state.provider]

    def waits_for_update(self, number: int = 1) -> bool:
        case = self.world.node(number).live_case
        return case is not None and case.waiting_for is WaitingFor.UPDATE


def replaced_one_by_one(update: Update) -> None:
    for number in (1, 2):
        update.terminate(number)
        update.run_inventory()
        update.world.advance_minutes(5)
        new = update.world.fleet.launch(GROUP)
        update.run_inventory()
        update.world.until(lambda number=number: update.world.status(number) is NodeStatus.HEALTHY, minutes=60)
        assert update.world.instance(number) == new


@pytest.mark.parametrize("orchestrated", [False, True])
def test_an_update_that_replaces_every_node_opens_no_repair_and_sends_no_page(orchestrated: bool) -> None:
    update = Update(orchestrated=orchestrated)
    update.begin()
    replaced_one_by_one(update)
    update.end()
    update.world.advance_minutes(60)
    assert [update.cases(number) for number in (1, 2)] == [[INSTANCE_REPLACED]] * 2
    assert set(update.pages(None, 1, 2)) <= {"unseen"}  # no agent reports in this test
    nodes = [update.world.node(number) for number in (1, 2)]
    assert [(one.status, one.unverified, one.live_case) for one in nodes] == [(NodeStatus.HEALTHY, False, None)] * 2
    assert update.world.released_instances() == []
    assert len(update.world.verifier.started) == 2


def test_without_an_update_the_same_departures_open_a_case_and_page() -> None:
    update = Update()
    update.terminate(1)
    assert update.cases(1) == ["cloud.instance_gone"]
    assert update.pages(1) == ["opened"]


def test_a_group_that_launches_first_gets_new_nodes_and_the_old_ones_are_retired() -> None:
    update = Update()
    update.begin()
    for number in (1, 2):
        (new,) = update.launch()
        update.run_inventory()
        assert update.node(new).case.code == INSTANCE_ADDED
        update.until_verified(new)
        update.terminate(number)
        update.run_inventory()
        assert update.world.status(number) is NodeStatus.RETIRED
        assert update.node(new).status is NodeStatus.HEALTHY
    update.end()
    assert [update.cases(number) for number in (1, 2)] == [[], []]
    assert update.pages(None, 1, 2) == []
    status = update.statuses()[-1]
    assert (status["to"], status["in_service"], status["expected"]) == ("healthy", 2, 2)


def test_a_node_that_an_update_replaced_is_retired_although_its_group_is_complete_only_after_the_grace_period() -> None:
    update = Update()
    update.begin()
    (new,) = update.launch()
    update.run_inventory()
    update.until_verified(new)
    update.fakes.standby.add(new)
    update.terminate(1)
    update.end()
    update.world.advance_minutes(60)
    update.run_inventory()
    assert update.world.status(1) is NodeStatus.PROVISIONING
    update.fakes.standby.clear()
    update.run_inventory()
    assert update.world.status(1) is NodeStatus.RETIRED
    assert (update.cases(1), update.pages(1)) == ([], [])
    update.run_inventory()
    assert update.registration.cluster(CLUSTER).update_holds == ()


def test_an_instance_that_waits_in_another_group_keeps_no_node_that_an_update_replaced() -> None:
    update = Update()
    first = "another"
    assert first < GROUP
    standby = update.world.fleet.launch(first)
    update.registration.add_node(CLUSTER, NewNode("other", standby, first))
    update.fakes.standby.add(standby)
    waiting = update.world.fleet.launch(first)
    update.begin()
    (new,) = update.launch()
    update.run_inventory()
    update.until_verified(new)
    update.terminate(1)
    result = update.sync.sync(update.registration.cluster(CLUSTER))
    assert (result.waiting, result.retired) == ([waiting], ["node-1"])


def test_a_node_whose_repair_has_meanwhile_passed_its_intent_is_kept_and_the_other_vacant_nodes_are_retired() -> None:
    update = Update()
    world = update.world
    vacant = [VacantNode(f"node-{number}") for number in (1, 2)]
    rows = [{"node": f"node-{number}", "instance": world.instance(number)} for number in (1, 2)]
    group = Group(GROUP, None, rows, members={}, unassigned={})
    world.fleet.capacity_left = 0
    world.fault_and_react()
    assert world.case().attempt.intent is not None
    result = SyncResult(CLUSTER)
    update.sync.retirement.retire_vacant(update.registration.cluster(CLUSTER), group, vacant, result)
    assert result.retired == ["node-2"]
    assert [world.status(number) is NodeStatus.RETIRED for number in (1, 2)] == [False, True]


def test_a_node_without_a_successor_is_not_retired_while_its_group_is_incomplete() -> None:
    update = Update()
    update.begin()
    update.terminate(1)
    update.run_inventory()
    assert update.world.status(1) is NodeStatus.PROVISIONING


def test_without_an_update_a_node_that_left_a_complete_group_is_not_retired() -> None:
    update = Update()
    (new,) = update.launch()
    update.run_inventory()
    update.until_verified(new)
    update.disappear(1)
    update.run_inventory()
    assert update.world.status(1) is NodeStatus.PROVISIONING


def test_a_silent_node_that_stays_gets_its_case_after_the_update_and_the_grace_period() -> None:
    update = Update()
    update.begin()
    update.world.fault_and_react(1, "host.silent", source="heartbeat", minutes=60)
    assert update.cases(1) == []
    assert [one.code for one in update.world.node(1).active()] == ["host.silent"]  # recorded
    update.end()
    update.world.advance_minutes(14)
    assert update.cases(1) == []
    update.world.advance_minutes(2)
    assert update.cases(1) == ["host.silent"]


def test_a_silent_node_that_answers_again_after_the_update_never_gets_a_case() -> None:
    update = Update()
    update.begin()
    update.world.fault_and_react(1, "host.silent", source="heartbeat", minutes=60)
    (silent,) = update.world.node(1).active()
    update.world.clear(1, silent.code, "heartbeat", silent.component)
    update.end()
    update.world.advance_minutes(60)
    assert update.cases(1) == []


def test_many_silent_nodes_of_an_updated_group_are_no_incident() -> None:
    update = Update(nodes=6)
    update.begin()
    for number in range(1, 7):
        update.world.fault_and_react(number, "host.silent", source="heartbeat")
    update.world.advance_minutes(30)
    assert update.world.control().holds == {}
    assert update.pages(None, *range(1, 7)) == []


def test_a_fatal_fault_during_an_update_isolates_the_node_and_waits_with_its_replacement() -> None:
    update = Update(orchestrated=True)
    update.begin()
    update.world.fault_and_react(1, minutes=30)
    assert update.waits_for_update()
    assert "is being updated by its owner" in update.world.case().reason
    assert "node-1" in update.world.orchestrator.cordoned
    assert update.world.released_instances() == []
    update.end()
    update.world.until(update.world.case_is(CaseStatus.RESOLVED))
    assert (update.world.case().resolution, update.world.status()) == (Resolution.REPLACED, NodeStatus.HEALTHY)
    assert update.world.released_instances() == ["i-00000000000000001"]


def test_a_fatal_fault_is_over_when_the_update_replaces_the_node() -> None:
    update = Update()
    update.begin()
    update.world.fault_and_react(1, minutes=10)
    update.terminate(1)
    update.world.fleet.launch(GROUP)
    update.run_inventory()
    update.world.until(update.world.case_is(CaseStatus.RESOLVED))
    assert (update.world.case().resolution, update.world.status()) == (Resolution.EXTERNAL, NodeStatus.HEALTHY)
    assert update.world.released_instances() == []


def test_an_absence_does_not_hide_a_fatal_fault_of_the_same_node() -> None:
    update = Update()
    update.begin()
    update.world.fault(1, "host.silent", source="heartbeat")
    update.world.fault_and_react(1)
    assert update.cases(1) == ["xid.79"]


def test_a_repair_that_has_not_reached_its_intent_gives_way_to_an_update() -> None:
    update = Update(orchestrated=True)
    world = update.world
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=10)
    world.fault_and_react(1, minutes=3)
    assert world.status() is NodeStatus.DRAINING
    update.begin()
    world.advance_minutes(15)
    assert update.waits_for_update()
    assert (world.released_instances(), world.control().holders) == ([], {})
    update.end()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.case().resolution is Resolution.REPLACED


def test_an_update_that_begins_after_the_drain_stops_the_repair_before_its_intent() -> None:
    update = Update()
    world = update.world
    world.collector.duration = timedelta(minutes=3)
    world.fault_and_react(1, minutes=1)
    assert world.collector.started
    update.begin()
    world.advance_minutes(20)
    assert update.waits_for_update()
    assert world.released_instances() == []


def test_an_update_is_shown_until_it_is_over() -> None:
    update = Update()
    update.begin()
    assert update.conditions() == [(ConditionKind.UPDATING, GROUP)]
    shown = update.statuses()[-1]
    assert shown["to"] == "recovering"
    assert f"updating in group {GROUP}: instance refresh 08b91cf7" in str(shown["reason"])
    recorded = len(update.statuses())
    update.world.advance_minutes(5)
    update.run_inventory()
    assert len(update.statuses()) == recorded
    update.end()
    assert (update.conditions(), update.statuses()[-1]["to"]) == ([], "healthy")


@pytest.mark.parametrize("started", [None, timedelta(hours=2)])
def test_an_update_that_never_ends_is_overdue_and_holds_no_repair_any_more(started: timedelta | None) -> None:
    update = Update()
    since = update.world.clock.now() - started if started else None
    update.fakes.updates[GROUP] = replace(REFRESH, since=since)
    update.run_inventory()
    update.world.fault_and_react(1, minutes=30)
    assert update.waits_for_update()
    left = DEADLINE - (started or timedelta()) - timedelta(minutes=30)
    update.world.clock.advance(left)
    update.run_inventory()
    assert update.conditions() == [(ConditionKind.UPDATE_OVERDUE, GROUP)]
    assert update.pages(None) == ["provider"]
    update.world.until(update.world.case_is(CaseStatus.RESOLVED))
    assert update.world.released_instances() == ["i-00000000000000001"]
    update.run_inventory()
    assert update.conditions() == [(ConditionKind.UPDATE_OVERDUE, GROUP)]  # it does not begin again
    update.end()
    assert update.conditions() == []
    (hold,) = update.registration.cluster(CLUSTER).update_holds
    assert (hold.running, hold.until) == (False, update.world.clock.now() + GRACE)


def test_the_deadline_of_an_update_is_a_limit_of_the_policy() -> None:
    update = Update(limits=Limits(update_deadline=timedelta(minutes=20)))
    update.begin()
    update.world.fault_and_react(1)
    update.world.until(update.world.case_is(CaseStatus.RESOLVED), minutes=120)
    assert update.world.released_instances() == ["i-00000000000000001"]


def test_a_second_update_has_a_deadline_of_its_own() -> None:
    update = Update()
    update.begin()
    update.world.clock.advance(timedelta(hours=5))
    update.end()
    update.world.clock.advance(timedelta(minutes=5))
    update.begin()
    (hold,) = update.registration.cluster(CLUSTER).update_holds
    assert (hold.running, hold.until) == (True, update.world.clock.now() + DEADLINE)


def test_a_group_of_another_name_is_not_held() -> None:
    update = Update()
    update.fakes.updates["another"] = REFRESH
    update.run_inventory()
    update.world.fault_until(CaseStatus.RESOLVED, 1)
    assert update.world.released_instances() == ["i-00000000000000001"]


def test_an_ended_update_leaves_nothing_behind_after_its_grace_period() -> None:
    update = Update()
    update.begin()
    update.end()
    (hold,) = update.registration.cluster(CLUSTER).update_holds
    assert (hold.running, hold.until) == (False, update.world.clock.now() + GRACE)
    update.world.clock.advance(GRACE)
    update.run_inventory()
    assert update.registration.cluster(CLUSTER).update_holds == ()


def test_a_new_bad_node_of_an_updated_group_is_replaced_after_the_update() -> None:
    update = Update(rules=(RELEASE,))
    update.begin()
    (new,) = update.launch()
    update.world.verifier.results[new] = BAD
    update.run_inventory()
    key = NodeKey(CLUSTER, update.node(new).key.node)
    waits = lambda: update.world.append.read(key).live_case.waiting_for is WaitingFor.UPDATE  # noqa: E731
    update.world.until(waits, minutes=120)
    assert update.world.released_instances() == []
    update.end()
    update.until_verified(new)
    assert update.world.released_instances() == [new]


@pytest.mark.parametrize("owner", [RepairOwner.FAULTBRIDGE, RepairOwner.PROVIDER])
def test_a_software_update_of_hyperpod_opens_no_case_for_its_silent_nodes(owner: RepairOwner) -> None:
    recovery = {"node_recovery": "Automatic" if owner is RepairOwner.PROVIDER else "None"}
    with hyperpod_world(owner, recovery, nodes=2) as world:
        world.cluster.status = "SystemUpdating"
        world.run_inventory()
        for number in (1, 2):
            world.fault_and_react(number, "host.silent", source="heartbeat")
        world.advance_minutes(40)
        assert [world.node(number).case for number in (1, 2)] == [None, None]
        for number in (1, 2):
            (silent,) = world.node(number).active()
            world.clear(number, silent.code, "heartbeat", silent.component)
        world.cluster.status = "InService"
        world.run_inventory()
        world.advance_minutes(30)
        assert [world.node(number).case for number in (1, 2)] == [None, None]
        assert world.cluster.requests == []


def test_a_fault_during_a_software_update_of_hyperpod_is_repaired_after_it() -> None:
    with hyperpod_world(nodes=2) as world:
        world.cluster.group_status[INSTANCE_GROUP] = "SystemUpdating"
        world.run_inventory()
        world.fault_and_react(1, minutes=30)
        assert world.case().waiting_for is WaitingFor.UPDATE
        assert world.cluster.requests == []
        world.cluster.group_status[INSTANCE_GROUP] = "InService"
        world.run_inventory()
        world.until(world.case_is(CaseStatus.RESOLVED))
        assert (world.case().resolution, world.status()) == (Resolution.REPLACED, NodeStatus.HEALTHY)
