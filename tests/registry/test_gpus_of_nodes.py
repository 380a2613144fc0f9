"""The GPUs that a node had when a job ended: kept over a reboot, unknown if the instance shows other GPUs now."""

from __future__ import annotations

import re
from datetime import timedelta

from faultbridge.model.faults import Component
from faultbridge.repair.registry.gpus import gpus_of
from faultbridge.serve.entrypoints.ingest import wire_ingest
from tests.builders import KEY
from tests.e2e.harness.records import healthy_smi
from tests.world import World


def world_with_gpus() -> World:
    world = World()
    report(world, healthy_smi(), "first")
    return world


def other_gpus(smi: str) -> str:
    return smi.replace("<uuid>GPU-0", "<uuid>GPU-f").replace("<serial>165", "<serial>166")


def without_first_gpu(smi: str) -> str:
    head, first, rest = smi.partition('<gpu id="00000000:01:00.0">')
    assert first
    return head.replace("<attached_gpus>8<", "<attached_gpus>7<") + rest.partition("</gpu>")[2]


def report(world: World, smi: str, boot: str, node: str = KEY.node) -> None:
    """Let a node report its GPUs, five minutes after its last report."""
    world.ports.clock.advance(timedelta(minutes=5))
    wire_ingest(world.app).ingest([world.message(smi, source="nvidia-smi-xml", boot_id=boot, node=node)])


def with_shared_serial(smi: str) -> str:
    """Return the report with the serial number of the second GPU on the first one too."""
    first, second = re.findall("<serial>([0-9]+)</serial>", smi)[:2]
    return smi.replace(f"<serial>{first}<", f"<serial>{second}<")


def gpus_before(world: World, minutes: int) -> tuple[Component, ...] | None:
    """Return the GPUs of the node before this number of minutes."""
    until = world.now - timedelta(minutes=minutes)
    return gpus_of(world.app.append, KEY.cluster, [KEY.node], until).get(KEY.node)


def test_the_gpus_of_a_node_are_known_after_a_reboot() -> None:
    world = world_with_gpus()
    before = world.node().devices
    report(world, healthy_smi(), "second")
    assert world.node().incarnation.boot == 2  # type: ignore[union-attr]  # it has an instance
    assert len(before) == 8
    assert gpus_before(world, 1) == before


def test_before_the_first_report_of_its_instance_a_rebooted_node_has_no_known_gpus() -> None:
    world = world_with_gpus()
    report(world, healthy_smi(), "second")
    assert gpus_before(world, 6) is None


def test_an_instance_that_started_on_another_host_has_no_known_gpus() -> None:
    world = world_with_gpus()
    report(world, other_gpus(healthy_smi()), "second")
    assert gpus_before(world, 1) is None
    assert gpus_before(world, 0) == world.node().devices


def test_a_node_that_lost_a_gpu_at_a_reboot_has_no_known_gpus() -> None:
    world = world_with_gpus()
    report(world, without_first_gpu(healthy_smi()), "second")
    assert len(world.node().devices) == 7
    assert gpus_before(world, 1) is None


def test_gpus_that_another_node_had_are_not_known_to_have_been_in_this_one() -> None:
    world = World(nodes=(KEY.node, "n-other"))
    wire_ingest(world.app).ingest([world.message(boot_id="first")])
    report(world, healthy_smi(), "of the other", "n-other")
    report(world, healthy_smi(), "second")
    assert len(world.node().devices) == 8
    assert gpus_before(world, 1) is None


def test_a_gpu_that_another_one_shares_its_serial_number_with_counts_as_seen_only_by_its_uuid() -> None:
    world = World()
    shared = with_shared_serial(healthy_smi())
    report(world, without_first_gpu(shared), "first")
    report(world, shared, "second")
    assert len(world.node().devices) == 8
    assert gpus_before(world, 1) is None
