"""HyperPod with Slurm: drained under the name of its host, replaced by SageMaker, verified, and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.local.hyperpod import RUNNING
from faultbridge.model.cluster.config import SLURM, RepairOwner
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, Resolution
from tests.scenarios.provider.hyperpod import requests
from tests.scenarios.provider.hyperpod_world import HyperPodWorld
from tests.scenarios.world import ScenarioPorts
from tests.slurm import REST, SlurmInMemory

LATE = timedelta(minutes=8)


class OnSlurm(HyperPodWorld):
    """HyperPod nodes that join Slurm under their host names, so long after they run."""

    def __init__(self, stack: ExitStack, joins_after: timedelta = timedelta(0), **others: Any) -> None:
        self.slurm, self.joins_after = SlurmInMemory(), joins_after
        super().__init__(stack, RepairOwner.FAULTBRIDGE, {}, **others)
        self.runs_since = {one.instance_id: self.clock.now() - joins_after for one in self.cluster.current()}
        self.join_nodes()
        self.run_inventory()

    def connect(self, ports: ScenarioPorts) -> None:
        super().connect(ports)
        self.orchestration = {"orchestrator": SLURM, "slurm_rest": REST}
        ports.orchestrators = {SLURM: SlurmOrchestrator(lambda _: self.slurm, self.clock)}

    def join_nodes(self) -> None:
        """Let the slurmd of each node register that has run long enough."""
        now = self.clock.now()
        for one in self.cluster.current():
            if one.status == RUNNING and now - self.runs_since.setdefault(one.instance_id, now) >= self.joins_after:
                self.slurm.join(host(one.instance_id))


def host(instance: str | None) -> str:
    """The short name of an instance's host, as the fake HyperPod reports it."""
    assert instance is not None
    return f"ip-10-1-{int(instance[-4:-2], 16)}-{int(instance[-2:], 16)}"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_a_node_is_drained_replaced_verified_and_resumed_under_its_new_name(stack: ExitStack) -> None:
    world = OnSlurm(stack, nodes=2)
    first, other = world.instance(), world.instance(2)
    world.slurm.running[host(first)] = ["7"]
    world.fault_and_react()
    assert (world.node().isolation, world.slurm.takes_work(host(first))) == (Isolation.CONFIRMED, False)
    assert world.slurm.takes_work(host(other))
    world.advance_minutes(3)
    assert (world.status(), requests(world, "replace")) == (NodeStatus.DRAINING, [])  # the job has not ended yet
    world.slurm.running.clear()
    world.until(lambda: requests(world, "replace") == [first])
    world.until(world.case_is(CaseStatus.RESOLVED), 300)
    second = world.instance()
    assert second == world.backing() != first
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    assert world.slurm.changes == [("drain", host(first)), ("drain", host(second)), ("resume", host(second))]
    assert world.slurm.takes_work(host(second))
    assert "drain drained" in world.record_history()


def test_a_successor_that_joins_late_is_drained_before_its_check_and_the_old_record_stays(stack: ExitStack) -> None:
    world = OnSlurm(stack, LATE, nodes=1)
    first = world.instance()
    world.fault_and_react()
    world.until(lambda: world.instance() != first, 300)
    second = world.instance()
    world.advance_minutes(3)
    assert world.slurm.node(host(second)) is None
    assert (world.status(), "verify begun" in world.record_history()) == (NodeStatus.VALIDATING, False)
    old = world.slurm.node(host(first))
    world.until(world.case_is(CaseStatus.RESOLVED), 300)
    assert world.slurm.changes == [("drain", host(first)), ("drain", host(second)), ("resume", host(second))]
    assert (world.status(), world.instance()) == (NodeStatus.HEALTHY, second)
    assert world.slurm.takes_work(host(second))
    assert world.slurm.node(host(first)) == old
    assert old is not None
    assert "DRAIN" in old.state
