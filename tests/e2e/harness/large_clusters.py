"""Clusters of many nodes on the embedded stack, and policies that let many repairs run."""

from __future__ import annotations

import uuid

from faultbridge import local
from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import version_of
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.record.policies import PolicyStore
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.harness.installation import Installation

GROUP_SIZE = 100


def put_policy(installation: Installation, text: str) -> None:
    """Apply a policy to all clusters of an installation."""
    document = read_policy(text)
    ports = installation.application.ports
    PolicyStore(ports.table, ports.clock).put({**document, "version": version_of(document)})


def register_large_cluster(installation: Installation, name: str, nodes: int, *, grouped: bool = True) -> str:
    """Register a cluster of `node-0000`...; `grouped` nodes are in Auto Scaling groups of a hundred."""
    registration = wire_registration(installation.application)
    registration.add_cluster(
        ClusterConfig(name, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT, nodes_per_shard=max(nodes // 4, 1))
    )
    for first in range(0, nodes, GROUP_SIZE):
        size, group = min(GROUP_SIZE, nodes - first), f"{name}-{first // GROUP_SIZE}" if grouped else None
        instances = (
            local.create_fleet(group, size, environment=installation.stack.info.environment)
            if group
            else [f"i-{uuid.uuid4().hex[:17]}" for _ in range(size)]
        )
        for number, instance in enumerate(instances, first):
            registration.add_node(name, NewNode(f"node-{number:04}", instance, group=group))
    return name
