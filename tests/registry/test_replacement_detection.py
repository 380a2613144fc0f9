"""Replacement detection: how a node changes when another controller replaces, removes or opts out its instance."""

from __future__ import annotations

import logging

import pytest

from faultbridge.decide.answers import node_answer
from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.nodes import Instance
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_node_orders, wire_registration, wire_retirement
from tests.builders import KEY
from tests.registry.world import instance, node_of, replace_externally, terminate
from tests.world import GROUP, XID_79


def decisions(caplog, name: str) -> list[logging.LogRecord]:
    return [line for line in caplog.records if line.message == name]


def test_an_externally_replaced_instance_is_verified_before_its_node_serves_again(world, sync, caplog):
    old, new = replace_externally(world)
    with caplog.at_level(logging.INFO, logger="faultbridge"):
        assert sync().replaced_externally == ["a"]
    state = node_of(world)
    assert (state.status, state.incarnation.instance_id, state.incarnation.instance) == (NodeStatus.VALIDATING, new, 2)
    assert state.former_instances == (old,)
    assert (state.case.status, state.case.code) == (CaseStatus.QUEUED, "cloud.instance_replaced")
    assert sync().replaced_externally == []
    (line,) = decisions(caplog, "instance_replaced_externally")
    assert (line.cluster, line.node, line.instance_id) == (KEY.cluster, "a", new)
    assert "validating" in line.reason


def test_in_an_observed_cluster_the_node_keeps_serving_unverified(world, sync):
    wire_registration(world.app).set_cluster(KEY.cluster, {"mode": Mode.OBSERVE})
    _, new = replace_externally(world)
    assert sync().replaced_externally == ["a"]
    state = node_of(world)
    assert (state.status, state.incarnation.instance_id, state.unverified) == (NodeStatus.HEALTHY, new, True)
    assert state.case is None


def test_a_node_keeps_the_last_eight_of_its_former_instances(world, sync):
    wire_registration(world.app).set_cluster(KEY.cluster, {"mode": Mode.OBSERVE})
    replaced = []
    for _ in range(10):
        replaced.append(replace_externally(world)[0])
        sync()
    assert node_of(world).former_instances == tuple(replaced[2:])


def test_the_conditions_of_the_former_instance_end_and_its_case_becomes_a_verification(world, sync):
    wire_ingest(world.app).ingest([world.message(XID_79, node="a")])
    assert node_of(world).live_case is not None
    opened = node_of(world).live_case.id
    replace_externally(world)
    assert sync().replaced_externally == ["a"]
    state = node_of(world)
    assert (list(state.active()), state.case.id, state.case.status) == ([], opened, CaseStatus.QUEUED)
    assert state.case.repair_action.value == "verify"


def test_a_node_whose_instance_is_gone_leaves_service_until_the_next_one(world, sync, caplog):
    old = instance(world)
    terminate(world, old)
    with caplog.at_level(logging.INFO, logger="faultbridge"):
        assert sync().gone == ["a"]
        assert sync().gone == ["a"]
    assert node_of(world).status is NodeStatus.PROVISIONING
    (line,) = decisions(caplog, "node_vacated")
    assert (line.node, line.instance_id, line.reason) == ("a", old, f"external: {old} is gone")
    new = world.ports.fleet.launch(GROUP)
    assert sync().replaced_externally == ["a"]
    assert (instance(world), node_of(world).status) == (new, NodeStatus.VALIDATING)


def test_a_node_whose_case_waits_leaves_service_when_its_instance_is_gone(world, sync):
    wire_ingest(world.app).ingest([world.message(XID_79, node="a")])
    opened = node_of(world).live_case.id
    terminate(world, instance(world))
    assert sync().gone == ["a"]
    state = node_of(world)
    assert (state.status, state.case.id, state.case.status) == (NodeStatus.PROVISIONING, opened, CaseStatus.QUEUED)


def test_a_node_that_was_retired_meanwhile_stays_retired_when_its_instance_is_gone(world, caplog):
    app, gone, order = world.app, instance(world), OperatorOrder("arn:aws:iam::123456789012:user/ada", "")
    expected = wire_registration(app).cluster(KEY.cluster).expected
    wire_retirement(app).retire(node_of(world).key, order)
    with caplog.at_level(logging.INFO, logger="faultbridge"):
        detection = wire_inventory(app).replacement_detection
        assert detection.vacate(wire_registration(app).cluster(KEY.cluster), "a", gone) is False
    assert node_of(world).status is NodeStatus.RETIRED
    assert wire_registration(app).cluster(KEY.cluster).expected == expected - 1
    (line,) = decisions(caplog, "node_not_vacated")
    assert line.reason == f"external: {gone} is gone, but the node is retired"


def test_a_node_that_got_another_instance_meanwhile_stays_in_service(world, sync, caplog):
    app = world.app
    wire_registration(app).set_cluster(KEY.cluster, {"mode": Mode.OBSERVE})
    old, new = replace_externally(world)
    sync()
    with caplog.at_level(logging.INFO, logger="faultbridge"):
        detection = wire_inventory(app).replacement_detection
        assert detection.vacate(wire_registration(app).cluster(KEY.cluster), "a", old) is False
    assert (node_of(world).status, instance(world)) == (NodeStatus.HEALTHY, new)
    (line,) = decisions(caplog, "node_not_vacated")
    assert line.reason == f"external: {old} is gone, but another instance backs the node"


def test_a_replacement_that_is_found_twice_is_attached_once_and_its_predecessor_is_not_updated(world):
    detection = wire_inventory(world.app).replacement_detection
    config = wire_registration(world.app).cluster(KEY.cluster)
    old, new = instance(world), Instance("i-0fffffffffffffff1")
    detection.attach_replacement(config, "a", new)
    attached = node_of(world)
    assert detection.attach_replacement(config, "a", new) is True
    assert detection.update_instance(config, "a", Instance(old, ("ip-10-0-0-9",))) is False
    assert node_of(world) == attached


def test_a_replacement_is_refused_while_a_repair_controls_the_node(world, caplog):
    wire_ingest(world.app).ingest([world.message(XID_79, node="a")])
    wire_react(world.app).run([(KEY.cluster, "a")])
    before = node_of(world)
    assert before.live_case.status is CaseStatus.IN_PROGRESS
    detection, config = (
        wire_inventory(world.app).replacement_detection,
        wire_registration(world.app).cluster(KEY.cluster),
    )
    with caplog.at_level(logging.INFO, logger="faultbridge"):
        assert detection.attach_replacement(config, "a", Instance("i-0fffffffffffffff1")) is False
    assert node_of(world).incarnation == before.incarnation
    (line,) = decisions(caplog, "replacement_left_to_repair")
    assert (line.node, line.instance_id) == ("a", "i-0fffffffffffffff1")


def test_the_command_that_ends_an_exclusion_names_the_label_and_then_the_tag_that_stays(
    world, sync, inventory, node_listing
):
    def command() -> str:
        state, now = node_of(world), world.ports.clock.now()
        commands = node_answer(state, wire_registration(world.app).cluster(KEY.cluster), None, now).commands
        return commands[0] if commands else ""

    def set_label(node: str | None) -> None:
        described = Instance(instance(world), (node or "ip-7",), opted_out=node is not None, opt_out_node=node)
        node_listing.instances = {instance(world): described}
        sync()

    set_label("ip-7")
    assert command() == "kubectl label node ip-7 faultbridge/opt-out-"
    inventory.opted_out_instances = {instance(world)}
    set_label("ip-7")
    assert command() == "kubectl label node ip-7 faultbridge/opt-out-"
    set_label(None)
    assert command() == f"aws ec2 delete-tags --resources {instance(world)} --tags Key=faultbridge:opt-out"
    set_label("ip-7")
    inventory.opted_out_instances = set()
    set_label(None)
    assert (command(), node_of(world).ignored) == ("", None)


@pytest.mark.parametrize("source", ["tag", "label"])
def test_an_opted_out_node_is_ignored_until_the_tag_or_label_is_removed(world, sync, inventory, node_listing, source):
    def set_opt_out(value: bool) -> None:
        if source == "tag":
            inventory.opted_out_instances = {instance(world)} if value else set()
        else:
            node_listing.instances = {instance(world): Instance(instance(world), ("a-name",), opted_out=value)}
        sync()

    set_opt_out(True)
    wire_ingest(world.app).ingest([world.message(XID_79, node="a")])
    state = node_of(world)
    assert (state.status, state.case, state.ignored.by) == (NodeStatus.DEGRADED, None, "label")
    set_opt_out(False)
    assert node_of(world).ignored is None
    wire_sweep(world.app).run()
    assert node_of(world).live_case is not None


def test_an_exclusion_by_an_operator_outlasts_a_tag(world, sync, inventory):
    wire_node_orders(world.app).ignore(node_of(world).key, OperatorOrder("ada"))
    for opted_out in ({instance(world)}, set()):
        inventory.opted_out_instances = opted_out
        sync()
        assert node_of(world).ignored.by == "ada"
