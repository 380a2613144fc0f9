"""Inventory: nodes follow the machines that their groups have; what a repair is at work on is left to it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from faultbridge.domain.clusters import Mode
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.records import Outcome
from faultbridge.entrypoints.inventory import inventory as inventory_function
from faultbridge.errors import Transient
from faultbridge.registry.instances import Called, Machine
from faultbridge.registry.inventory_sync import SyncInventory
from faultbridge.registry.registration import NewNode
from faultbridge.registry.replacement_detection import ReplacementDetection
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.simulation.fakes import FakeInventory
from tests.builders import KEY
from tests.registry.fake_node_listing import FakeRoll
from tests.world import GROUP, XID_79, World


@pytest.fixture
def world():
    return World(nodes=("a", "b"), eks_cluster="train")


@pytest.fixture
def inventory(world):
    return FakeInventory(world.ports.fleet)


@pytest.fixture
def roll():
    return FakeRoll()


@pytest.fixture
def sync(world, inventory, roll):
    app = world.app
    seating = ReplacementDetection(world.ports.table, app.ledger.append, app.rules.rulebook)
    looks = SyncInventory(world.ports.table, app.registry.registration, seating, {"ec2-auto-scaling": inventory}, roll)

    def look(only=None):
        return looks.sync(app.registry.registration.cluster(KEY.cluster), only)

    look()
    return look


def register_node(world, node="a"):
    return world.node(KEY._replace(node=node))


def instance(world, node="a") -> str:
    return register_node(world, node).incarnation.instance_id


def replaced_by_somebody(world, node="a") -> tuple[str, str]:
    """The instance that left a node, and the one that its group launched for it."""
    old, fleet = instance(world, node), world.ports.fleet
    fleet.instances[old] = replace(fleet.instances[old], alive=False)
    return old, fleet.launch(GROUP)


def test_a_group_as_registered_changes_nothing_after_the_first_look(world, sync, inventory):
    before, calls = list(world.ports.table.items()), inventory.calls
    assert sync().quiet
    assert list(world.ports.table.items()) == before
    assert inventory.calls - calls == 2


def test_a_node_that_a_person_registered_learns_what_its_machine_is_called_and_shares(world, sync):
    found = register_node(world).placement
    host = f"ip-{instance(world)[-4:]}"
    assert found.host_names == (host, f"{host}.internal")
    assert dict(found.domains) == {"zone": "use1-az1", "network_node": f"nn-{instance(world)[-1]}"}
    assert found.domain == f"nn-{instance(world)[-1]}"
    assert world.outcomes(world.message(XID_79, node=host)) == [Outcome.RECORDED]


def test_a_group_that_grew_has_a_node_more_that_serves_unverified_and_takes_records(world, sync):
    new = world.ports.fleet.launch(GROUP)
    assert sync().added == [f"ip-{new[-4:]}"]
    state = register_node(world, f"ip-{new[-4:]}")
    assert (state.status, state.unverified, state.placement.domain) == (NodeStatus.HEALTHY, True, f"nn-{new[-1]}")
    assert world.outcomes(world.message(XID_79, node=new)) == [Outcome.RECORDED]
    assert sync().added == []


def test_a_name_that_the_orchestrator_gives_later_leads_to_the_node(world, sync, roll):
    roll.called = {instance(world): Called(("k8s-name", "k8s-name.internal"), {"zone": "us-east-1a"})}
    assert sync().refreshed == ["a"]
    assert sync().refreshed == []
    assert world.outcomes(world.message(XID_79, node="k8s-name.internal")) == [Outcome.RECORDED]
    assert register_node(world).placement.domains["network_node"]


def test_an_instance_that_somebody_else_replaced_is_verified_before_its_node_serves_again(world, sync):
    old, new = replaced_by_somebody(world)
    assert sync().reseated == ["a"]
    state = register_node(world)
    assert (state.status, state.incarnation.instance_id, state.incarnation.instance) == (NodeStatus.VALIDATING, new, 2)
    assert state.former_instances == (old,)
    assert (state.case.status, state.case.code) == (CaseStatus.QUEUED, "cloud.instance_replaced")
    assert sync().reseated == []


def test_where_we_only_observe_the_node_serves_on_unverified(world, sync):
    world.app.registry.registration.set_cluster(KEY.cluster, {"mode": Mode.OBSERVE})
    _, new = replaced_by_somebody(world)
    assert sync().reseated == ["a"]
    state = register_node(world)
    assert (state.status, state.incarnation.instance_id, state.unverified) == (NodeStatus.HEALTHY, new, True)
    assert state.case is None


def test_the_trouble_of_the_old_instance_ends_with_it(world, sync):
    world.app.ingestion.ingest([world.message(XID_79, node="a")])
    assert register_node(world).live_case is not None
    opened = register_node(world).live_case.id
    replaced_by_somebody(world)
    assert sync().reseated == ["a"]
    state = register_node(world)
    assert (list(state.active()), state.case.id, state.case.status) == ([], opened, CaseStatus.QUEUED)
    assert state.case.repair_action.value == "verify"


def test_a_late_log_tail_of_the_old_instance_changes_nothing_whatever_it_calls_itself(world, sync, roll):
    old = instance(world)
    roll.called = {old: Called((f"hyperpod-{old}", "kept-name"))}
    sync()
    host, tail_began = f"ip-{old[-4:]}", world.now
    _, new = replaced_by_somebody(world)
    roll.called = {new: Called((f"hyperpod-{new}", "kept-name"))}
    assert sync().reseated == ["a"]
    before = register_node(world)
    tail = [
        world.message(XID_79, node=name, sent_at=tail_began, instance_id=by)
        for name, by in [(host, None), (f"hyperpod-{old}", None), (old, None), (None, old), (f"{host}.internal", None)]
    ]
    world.app.ingestion.ingest(tail)
    after = register_node(world)
    assert (after.status, list(after.active()), after.case) == (before.status, [], before.case)
    assert not list(world.app.ingestion.rejects.list(KEY.cluster))


def test_an_empty_node_takes_the_machine_that_comes(world, sync):
    world.app.registry.registration.add_node(KEY.cluster, NewNode("c", group=GROUP))
    new = world.ports.fleet.launch(GROUP)
    assert sync().reseated == ["c"]
    assert (instance(world, "c"), register_node(world, "c").status) == (new, NodeStatus.VALIDATING)


def test_a_node_whose_instance_is_gone_waits_out_of_service_for_the_next(world, sync):
    old, fleet = instance(world), world.ports.fleet
    fleet.instances[old] = replace(fleet.instances[old], alive=False)
    assert sync().gone == ["a"]
    assert register_node(world).status is NodeStatus.PROVISIONING
    new = fleet.launch(GROUP)
    assert sync().reseated == ["a"]
    assert (instance(world), register_node(world).status) == (new, NodeStatus.VALIDATING)


def test_an_instance_that_only_stands_by_keeps_its_node(world, sync, inventory):
    inventory.standby.add(instance(world))
    new = world.ports.fleet.launch(GROUP)
    synced = sync()
    assert (synced.gone, synced.reseated, synced.added, synced.waiting) == (["a"], [], [], [new])
    assert register_node(world).status is NodeStatus.HEALTHY


def test_a_group_that_is_not_there_says_nothing_about_its_nodes(world, sync, inventory):
    inventory.omitted_groups.add(GROUP)
    assert sync().gone == []


def test_a_source_that_does_not_answer_is_said_so_and_changes_nothing(world, sync, inventory):
    def away(*_):
        raise Transient("EC2 does not answer")

    inventory.look = away
    replaced_by_somebody(world)
    synced = sync()
    assert (synced.unread, synced.reseated) == (["EC2 does not answer"], [])


def test_only_the_groups_that_are_asked_for_are_looked_at(world, sync, inventory):
    replaced_by_somebody(world)
    assert sync(["another"]).reseated == []
    assert sync([GROUP]).reseated == ["a"]


def test_a_machine_whose_name_is_taken_is_refused_and_stops_no_other(world, sync, inventory):
    first, second = world.ports.fleet.launch(GROUP), world.ports.fleet.launch(GROUP)
    inventory.machine = lambda group, one: Machine(one, {first: "a"}.get(one, "free"), group)
    synced = sync()
    assert (synced.added, synced.refused) == (["free"], {first: "node_exists"})
    assert second


def test_a_host_name_that_another_machine_bears_now_leads_to_it(world, sync, inventory):
    old = instance(world)
    host = f"ip-{old[-4:]}"
    replaced_by_somebody(world)
    sync()
    grown = world.ports.fleet.launch(GROUP)
    usual = inventory.machine
    inventory.machine = lambda group, one: replace(usual(group, one), aliases=(host,) if one == grown else ())
    assert sync().added == [f"ip-{grown[-4:]}"]
    world.app.ingestion.ingest([world.message(XID_79, node=host)])
    assert list(register_node(world, f"ip-{grown[-4:]}").active())
    assert not list(register_node(world).active())


def test_a_node_that_was_retired_keeps_no_machine_from_another(world, sync):
    old, fleet = instance(world), world.ports.fleet
    world.app.registry.retirement(KEY._replace(node="a"), OperatorOrder(None, "rack given up"))
    fleet.instances[old] = replace(fleet.instances[old], alive=False)
    new = fleet.launch(GROUP)
    assert sync().added == [f"ip-{new[-4:]}"]
    assert register_node(world).status is NodeStatus.RETIRED


def at_event(world, *events):
    """What the function's own entry point says of a batch of events off the queue."""
    return inventory_function({"Records": [{"body": json.dumps(one)} for one in events]}, world.app)["clusters"]


def scaled(group: str, instance_id: str, what: str = "Launch") -> dict:
    detail = {"AutoScalingGroupName": group, "EC2InstanceId": instance_id}
    return {"detail-type": f"EC2 Instance {what} Successful", "source": "aws.autoscaling", "detail": detail}


@pytest.fixture
def events(world, sync, inventory, roll):
    world.ports.inventories, world.ports.roll = {"ec2-auto-scaling": inventory}, roll
    return lambda *told: at_event(world, *told)


def test_a_machine_that_its_group_launched_has_its_node_as_soon_as_that_is_told(world, events, inventory):
    new = world.ports.fleet.launch(GROUP)
    (found,) = events(scaled(GROUP, new))
    assert found["added"] == [f"ip-{new[-4:]}"]


def test_an_instance_that_ends_makes_its_own_group_be_looked_at(world, events):
    old, new = replaced_by_somebody(world)
    change = {"instance-id": old, "state": "terminated"}
    (found,) = events({"detail-type": "EC2 Instance State-change Notification", "source": "aws.ec2", "detail": change})
    assert (found["reseated"], instance(world)) == (["a"], new)


def test_a_burst_of_events_is_one_look_at_each_group(world, events, inventory):
    before = inventory.calls
    told = [scaled(GROUP, f"i-{number:017x}", "Terminate") for number in range(500)]
    events(*told)
    assert inventory.calls - before == 2


def test_an_event_of_hyperpod_names_its_group_one_level_deeper(world, events):
    new = world.ports.fleet.launch(GROUP)
    detail = {"EventDetails": {"InstanceGroupName": GROUP, "ClusterName": "hp", "ResourceType": "InstanceGroup"}}
    (found,) = events({"detail-type": "SageMaker HyperPod Cluster Event", "source": "aws.sagemaker", "detail": detail})
    assert found["added"] == [f"ip-{new[-4:]}"]


def test_what_is_none_of_ours_costs_no_look(world, events, inventory):
    before = inventory.calls
    assert events(scaled("their-group", "i-0fffffffffffffff9"), {"detail": None}, ["nonsense"]) == []
    assert inventory.calls == before


@pytest.mark.parametrize("by", ["tag", "label"])
def test_a_node_that_opts_out_is_left_alone_until_it_no_longer_does(world, sync, inventory, roll, by):
    def opts_out(really: bool) -> None:
        if by == "tag":
            inventory.opted_out_instances = {instance(world)} if really else set()
        else:
            roll.called = {instance(world): Called(("a-name",), opted_out=really)}
        sync()

    opts_out(True)
    world.app.ingestion.ingest([world.message(XID_79, node="a")])
    assert (register_node(world).status, register_node(world).case, register_node(world).ignored.by) == (
        NodeStatus.DEGRADED,
        None,
        "label",
    )
    opts_out(False)
    assert register_node(world).ignored is None
    world.app.ops.sweep()
    assert register_node(world).live_case is not None
