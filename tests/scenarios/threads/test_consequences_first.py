"""A consequence that is reported before its cause: still one case, one repair, and entries that correct themselves."""

from __future__ import annotations

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.enums import CaseStatus, RepairAction
from tests.scenarios.world import World

CAUSE = "gpu.ecc_uncorrectable@gpu/pci=0000:c1:00"
"""The condition of Xid 48, a double-bit error."""


def world_after(first: str, *, seconds: int, orchestrated: bool, value: str = "0x1") -> World:
    """Return a world in which Xid 154 (or 63) arrives, is acted on and swept, and Xid 48 follows seconds later."""
    world = World(nodes=20, orchestrated=orchestrated, catalog=load_catalog())
    world.policy = default_policy()
    world.fault_and_react(code=first, attributes={"recovery_action": value} if first == "xid.154" else {})
    world.sweep.run()
    world.process_entries()
    world.clock.advance(seconds)
    world.fault_and_react(code="xid.48")
    return world


@pytest.mark.parametrize("orchestrated", [False, True])
@pytest.mark.parametrize("first", ["xid.154", "xid.63"])
@pytest.mark.parametrize("seconds", [5, 50])
def test_a_consequence_that_was_acted_on_first_and_its_cause_are_one_case_with_one_repair(
    first: str, seconds: int, orchestrated: bool
) -> None:
    world = world_after(first, seconds=seconds, orchestrated=orchestrated)
    because = {one.code: one.because_of for one in world.node().active()}
    assert because == {first: CAUSE, "xid.48": None}
    world.until(world.case_is(CaseStatus.RESOLVED))
    bodies = world.bodies(1)
    assert len({one["metadata"]["case_id"] for one in bodies} - {None}) == 1
    (restart,) = world.restarter.restarted
    assert restart[0] is RepairAction.RESET_GPU
    assert world.released_instances() == []
    assert world.node().live_case is None


@pytest.mark.parametrize("first", ["xid.154", "xid.63"])
def test_one_entry_corrects_what_the_first_report_said(first: str) -> None:
    world = world_after(first, seconds=5, orchestrated=True)
    stated = [
        (one["metadata"]["event_type"], one["data"].get("because_of"), one["data"]["action"])
        for one in world.bodies(1)
        if one["data"].get("code") == first and "Fault" in one["metadata"]["event_type"]
    ]
    assert stated == [("Node Fault Detected", None, "reset_gpu"), ("Node Fault Updated", CAUSE, "none")]


def test_a_reboot_that_the_consequence_requires_remains_the_one_repair() -> None:
    world = world_after("xid.154", seconds=5, orchestrated=False, value="0x2")
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert [one[0] for one in world.restarter.restarted] == [RepairAction.REBOOT_NODE]
