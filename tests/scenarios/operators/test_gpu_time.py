"""GPU time counts while a node waits out of service: for a person, an approval, a pause or capacity."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.decide.entry_builder import gpu_time_lost
from faultbridge.model.enums import RepairAction
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from tests.scenarios.world import World

ASKS = Rule("asks", approval=(RepairAction.REPLACE_NODE,), release_without_capacity=True)


def waits_for_approval() -> World:
    return World(rules=(ASKS,))


def is_escalated() -> World:
    return World(rules=(Rule("none", repair_actions=()),))


def is_paused() -> World:
    world = World()
    world.pause_repairs(paused=True)
    return world


def waits_for_capacity() -> World:
    world = World(rules=(Rule("keep", release_without_capacity=False),))
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False, reason="it is in use")
    return world


@pytest.mark.parametrize("build", [waits_for_approval, is_escalated, is_paused, waits_for_capacity])
def test_a_node_that_waits_out_of_service_costs_gpu_time(build: Callable[[], World]) -> None:
    world = build()
    world.fault_and_react(minutes=3)
    state, case = world.node(), world.case()
    assert state.status is not None
    assert not state.status.in_service
    lost = [gpu_time_lost(replace(case, gpus=8), world.clock.now() + timedelta(hours=hours)) for hours in (0, 1)]
    assert None not in lost
    assert lost[0] is not None
    assert lost[0] > 0
    assert lost[1] == lost[0] + 8 * 3_600_000
