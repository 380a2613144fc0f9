"""The GPU grid shows what the record holds about each GPU, and `-` where it holds nothing."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.event_data import Component
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.values import replace
from faultbridge.serve.presentation.grid import Counters, GpuRow, gpu_row
from faultbridge.serve.presentation.tones import Tone
from tests.presentation.histories import facts_of, replaced
from tests.scenarios.world import CLUSTER, World


def gpu(index: int | None = None, pci: str | None = None) -> Component:
    return Component(type=ComponentType.GPU, index=index, pci=pci, uuid=None, serial=None, link=None, name=None)


def row_of(world: World, *counters: Counters, number: int = 8) -> GpuRow:
    facts = facts_of(world).cluster(CLUSTER, (None, None))
    (node,) = facts.shown
    return gpu_row(node, counters, number, facts.closed_cases)


def facts_about(row: GpuRow, name: str) -> dict[str, str]:
    return {fact.name: fact.value for cell in row.cells if cell.name == name for fact in cell.facts}


def test_a_fault_is_shown_at_its_gpu_and_the_others_are_unknown() -> None:
    world = World(nodes=2)
    world.fault_and_react(1, message="GPU has fallen off the bus")
    row = row_of(world)
    (cell,) = row.cells
    assert (cell.name, cell.mark.text, cell.mark.tone) == ("0:c1:00", "xid.79, fatal", Tone.BAD)
    assert facts_about(row, "0:c1:00") == {
        "ECC": "-", "Row remap": "-", "Last Xid": "xid.79: GPU has fallen off the bus", "Thermal": "-", "NVLink": "-",
    }  # fmt: skip
    assert (row.unnamed, row.tested_at) == (7, None)


def test_counters_are_shown_at_the_gpu_that_they_are_about() -> None:
    world = World(nodes=2)
    world.fault_and_react(1)
    counted = {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 0, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 3}
    row = row_of(world, Counters(gpu(3), counted), Counters(gpu(0, "0000:c1:00"), {"DCGM_FI_DEV_THERMAL_VIOLATION": 9}))
    shown = facts_about(row, "3")
    assert (shown["ECC"], shown["NVLink"], shown["Thermal"], shown["Last Xid"]) == (
        "0 counted", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 3", "-", "-",
    )  # fmt: skip
    assert [cell.mark.tone for cell in row.cells if cell.name == "3"] == [Tone.GOOD]


def test_a_row_names_the_time_of_the_last_verification() -> None:
    world = replaced()
    facts = facts_of(world)
    (case,) = facts.cluster(CLUSTER, (None, None)).closed_cases
    node = facts.node(CLUSTER, "node-1", (None, None)).document
    assert gpu_row(node, (), 8, [case]).tested_at == case.closed_at
    later = replace(case, resolution="recovered", closed_at=world.clock.now() + timedelta(hours=1))
    assert gpu_row(node, (), 8, [case, later]).tested_at == case.closed_at


def test_counters_of_an_earlier_instance_are_not_shown() -> None:
    from faultbridge.model.faults import Component as Device
    from faultbridge.model.storage import keys
    from faultbridge.model.storage.counter_samples import LastSample, SampleSet, samples_put

    world = World(nodes=2)
    world.fault_and_react(1)
    now, incarnation = world.clock.now(), world.node().incarnation
    assert incarnation is not None
    for boot, expected in ((incarnation.boot, 1), (incarnation.boot + 1, 0)):
        device = LastSample(now, Device(ComponentType.GPU, index=2), {"DCGM_FI_DEV_THERMAL_VIOLATION": 4})
        samples = SampleSet(now + timedelta(seconds=boot), incarnation.instance, boot, {"gpu/index=2": device})
        world.table.write(samples_put(keys.counter_samples(world.key(1), "dcgm-metrics"), samples, now))
        counters = facts_of(world).cluster(CLUSTER, (None, None)).counters
        assert len(counters["node-1"]) == expected
