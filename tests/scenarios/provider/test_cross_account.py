"""A cluster in another AWS account is repaired there, through its role."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig, ProviderRole
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import Misconfigured
from faultbridge.model.values import replace
from faultbridge.repair.attempt.step_context import no_other_accounts
from faultbridge.repair.attempt.step_runner import StepRunner
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import FakeProvider

ROLE = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")


def test_the_instance_is_released_and_verified_in_its_own_account() -> None:
    world = World()
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"provider_role": ROLE})
    tools = world.step_runner.tools
    ours = FakeProvider(world.fleet)
    asked: list[ProviderRole | None] = []

    def for_cluster(config: ClusterConfig):
        asked.append(config.provider_role)
        return tools

    step_runner = StepRunner(replace(tools, providers={"ec2-auto-scaling": ours}, compute_of_cluster=for_cluster))
    world.workflow.handler = step_runner.run_step
    tick_node = replace(world.sweep.tick_node, step_runner=step_runner)
    steps = replace(world.sweep.cluster_steps, tick_node=tick_node)
    world.sweep = replace(world.sweep, tick_node=tick_node, cluster_steps=steps)
    world.fault()
    world.until(lambda: world.node().case is not None and not world.case().status.live, minutes=120)
    assert world.status() is NodeStatus.HEALTHY
    assert len(world.released_instances()) == 1
    assert ours.replaced == []
    assert set(asked) == {ROLE}


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"provider_role": ROLE}, ROLE.arn), ({"hyperpod_cluster": "ml-cluster"}, "ml-cluster")],
    ids=["a role", "a HyperPod cluster"],
)
def test_an_installation_without_access_to_a_cluster_names_what_the_cluster_needs(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misconfigured, match=f"the instances of {CLUSTER} is not set up: {named}"):
        replace(World().step_runner.tools, compute_of_cluster=no_other_accounts).compute(
            ClusterConfig(CLUSTER, **settings)
        )
