"""Builders of hyperpod that several test modules use."""

from __future__ import annotations

from faultbridge.model.policy import Match, Rule
from tests.scenarios.provider.hyperpod_world import HyperPodWorld

DEEP = Rule("deep", Match(codes=("xid.79",)), release_without_capacity=True, verify_level=2)

AUTOMATIC = {"node_recovery": "Automatic"}


def requests(world: HyperPodWorld, action: str) -> list[str]:
    return [instance_id for done, instance_id in world.cluster.requests if done == action]
