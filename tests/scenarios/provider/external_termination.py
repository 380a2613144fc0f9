"""Builders of external termination that several test modules use."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from tests.scenarios.world import World

FIRST = "i-00000000000000001"

REBOOT = Rule("reboot", Match(codes=("xid.48",)), action=Action.REBOOT_NODE, release_without_capacity=True)

DIAGNOSE = Rule("diagnose", Match(codes=("xid.48",)), action=Action.RUN_DIAGNOSTICS, release_without_capacity=True)


def busy_world(rule: Rule = REBOOT) -> World:
    """Return a world whose faulty node runs jobs for another 15 minutes."""
    world = World(orchestrated=True, rules=(rule, Rule("rest", release_without_capacity=True)))
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=15)
    return world
