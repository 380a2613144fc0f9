"""A cluster whose machines are in another account is repaired there, through its role, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

from faultbridge.domain.clusters import ProviderRole
from faultbridge.domain.edges import NodeStatus
from faultbridge.registry.registration import Registration
from faultbridge.repair.attempt.recovery import RecoverAttempts
from faultbridge.repair.attempt.step_runner import StepRunner
from faultbridge.simulation.fakes import FakeProvider
from tests.scenarios.world import CLUSTER, World

ROLE = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")


def test_the_machine_is_given_up_and_proven_where_it_is() -> None:
    world = World()
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"provider_role": ROLE})
    tools = world.machine.tools
    ours = FakeProvider(world.fleet)
    asked: list[ProviderRole] = []

    def elsewhere(role: ProviderRole):
        asked.append(role)
        return tools

    machine = StepRunner(replace(tools, providers={"ec2-auto-scaling": ours}, elsewhere=elsewhere))
    world.workflow.handler = machine
    world.sweep = replace(world.sweep, poke=RecoverAttempts(machine))
    world.fault()
    world.until(lambda: world.node().case is not None and not world.case().status.live, minutes=120)
    assert world.status() is NodeStatus.HEALTHY
    assert len(world.released()) == 1
    assert ours.replaced == []
    assert set(asked) == {ROLE}
