"""`faultbridge device`, from a source's text to the history of a card and the list of offenders."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.nodes import Instance
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.serve.entrypoints.ingest import wire_ingest
from tests.builders import KEY
from tests.cli.builders import CARD, UUID
from tests.cli.desk import Desk
from tests.world import XID_79


def report(desk: Desk, node: str = KEY.node) -> None:
    """Let a node report its card, and a minute later that the card fell off the bus."""
    desk.world.ports.clock.advance(timedelta(minutes=5))
    for text, source in ((CARD, "nvidia-smi-xml"), (XID_79, "kernel-log")):
        found = wire_ingest(desk.world.app).ingest([desk.world.message(text, source=source, node=node)])
        assert not found.reasons
        desk.world.ports.clock.advance(timedelta(minutes=1))


def test_the_history_of_a_card_is_found_by_its_serial_number_and_by_its_uuid(desk: Desk) -> None:
    report(desk)
    lines = desk.json("device", "history", "1653")
    assert [(one["kind"], one["node"], one["slot"]) for one in lines] == [
        ("seen", KEY.node, "0000:c1:00"),
        ("fault", KEY.node, "0000:c1:00"),
        ("case", KEY.node, "0000:c1:00"),
    ]
    assert desk.json("device", "history", UUID) == lines
    assert "fatal xid.79" in desk("device", "history", "1653").out


def test_a_card_that_failed_in_two_nodes_is_listed_as_the_probable_cause(desk: Desk) -> None:
    desk.world.register_node("other")
    report(desk)
    assert desk.json("device", "offenders", "--cluster", KEY.cluster) == []
    report(desk, "other")
    found = desk.json("device", "offenders", "--cluster", KEY.cluster)
    assert {(one["device"], one["favors"], one["card"]["faulty"], one["likelihood_ratio"]) for one in found} == {
        ("1653", "card", 1, 5.4)
    }
    assert "1 of 1 faulty" in desk("device", "offenders", "--cluster", KEY.cluster).out
    assert desk.json("device", "offenders", "--cluster", KEY.cluster, "--since", "1s") == []


def test_an_unknown_device_and_an_unknown_cluster_are_named(desk: Desk) -> None:
    assert "unknown device: 4711" in desk("device", "history", "4711").err
    assert "unknown cluster: nowhere" in desk("device", "offenders", "--cluster", "nowhere").err


def test_the_history_of_a_node_names_its_instances_and_devices_with_their_faults(desk: Desk) -> None:
    report(desk)
    lines = desk.json("node", "history", KEY.node, "--cluster", KEY.cluster)
    assert [(one["kind"], one["slot"], one["device"]) for one in lines] == [
        ("instance", None, None),
        ("device", "0000:c1:00", "1653"),
        ("fault", "0000:c1:00", "1653"),
        ("case", "0000:c1:00", "1653"),
    ]
    assert {one["instance_id"] for one in lines[:3]} == set(desk.world.ports.fleet.instances)
    assert "this instance backs the node" in desk("node", "history", KEY.node, "--cluster", KEY.cluster).out
    assert desk("node", "history", "nobody", "--cluster", KEY.cluster).code != 0


def test_a_card_without_a_serial_number_is_named_by_its_uuid_in_the_history_of_a_node(desk: Desk) -> None:
    without = CARD.replace("<serial>1653</serial>", "")
    assert not wire_ingest(desk.world.app).ingest([desk.world.message(without, source="nvidia-smi-xml")]).reasons
    lines = desk.json("node", "history", KEY.node, "--cluster", KEY.cluster)
    assert [one["device"] for one in lines if one["kind"] == "device"] == [UUID]


def test_a_new_instance_of_a_node_is_a_line_of_its_history(desk: Desk) -> None:
    report(desk)
    successor = desk.world.ports.fleet.launch("gpu-workers")
    app, instance = desk.world.app, Instance(successor, launched_at=desk.world.now)
    detection = ReplacementDetection(desk.world.ports.table, app.append, app.rulebook)
    assert detection.attach_replacement(desk.world.config, KEY.node, instance)
    lines = desk.json("node", "history", KEY.node, "--cluster", KEY.cluster)
    assert [one["instance_id"] for one in lines if one["kind"] == "instance"][-1] == successor
