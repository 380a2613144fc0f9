"""A growing group of a Slurm cluster: a new node is drained until it was verified, and then resumed."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.decode.slurm import SlurmNode
from faultbridge.model.cluster.config import SLURM
from faultbridge.model.enums import Isolation, NodeStatus
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.provider.growth import Growth
from tests.scenarios.world import CLUSTER, ScenarioPorts, World
from tests.sim.fakes.fleet import host_name
from tests.slurm import REST, SlurmInMemory


class OnSlurm(World):
    """A cluster that Slurm schedules."""

    def __init__(self, **others: Any) -> None:
        self.slurm = SlurmInMemory()
        super().__init__(**others)
        changed = {"orchestrator": SLURM, "slurm_rest": REST}
        Registration(self.table, self.append, self.clock).set_cluster(CLUSTER, changed)

    def connect(self, ports: ScenarioPorts) -> None:
        ports.orchestrators = {SLURM: SlurmOrchestrator(lambda _: self.slurm, self.clock)}


def joined(reason: str | None) -> tuple[Growth, SlurmInMemory, str]:
    """A group with a new instance that has joined Slurm: drained with a reason, or ready for jobs without one."""
    growth = Growth(make=OnSlurm)
    assert isinstance(growth.world, OnSlurm)
    (new,) = growth.launch()
    name, slurm = host_name(new), growth.world.slurm
    slurm.join(name)
    if reason is not None:
        slurm.nodes[name] = SlurmNode(name, "IDLE+DRAIN", reason=reason, host=name, address=name)
    growth.run_inventory()
    return growth, slurm, new


@pytest.mark.parametrize("reason", [None, "faultbridge"])
def test_a_new_node_takes_no_job_until_it_was_verified(reason: str | None) -> None:
    growth, slurm, new = joined(reason)
    growth.world.until(lambda: growth.node(new).isolation is Isolation.CONFIRMED, minutes=5)
    assert not slurm.takes_work(host_name(new))
    growth.until_verified(new)
    assert (growth.node(new).status, slurm.takes_work(host_name(new))) == (NodeStatus.HEALTHY, True)
    assert slurm.changes == [("drain", host_name(new)), ("resume", host_name(new))]


def test_a_new_node_that_an_operator_drained_is_verified_and_stays_drained() -> None:
    growth, slurm, new = joined("burn-in by ada")
    growth.until_verified(new)
    assert growth.node(new).status is NodeStatus.HEALTHY
    assert slurm.nodes[host_name(new)].reason == "burn-in by ada"
    assert slurm.changes == []


def test_the_diagnostics_of_a_new_node_that_slurm_does_not_have_yet_wait_for_its_drain() -> None:
    growth = Growth(make=OnSlurm)
    world = growth.world
    assert isinstance(world, OnSlurm)
    (new,) = growth.launch()
    growth.run_inventory()
    world.advance_minutes(10)
    assert not world.verifier.started
    world.slurm.join(host_name(new))
    world.until(lambda: bool(world.verifier.started), minutes=30)
    assert not world.slurm.takes_work(host_name(new))
    growth.until_verified(new)
    assert world.slurm.takes_work(host_name(new))
