"""HyperPod's auto-resume restarts a job by itself: Faultbridge follows it, and does not restart the job again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import RepairOwner
from faultbridge.repair.jobs.jobs import Jobs
from tests.jobs.builders import configure
from tests.jobs.resume import changes, jobs
from tests.scenarios.provider.hyperpod import AUTOMATIC
from tests.scenarios.provider.hyperpod_world import HyperPodWorld, hyperpod_world
from tests.scenarios.world import CLUSTER


def repaired_by_hyperpod(world: HyperPodWorld, *, ends: bool, restarts: bool) -> Jobs:
    """Let a node of a job fail and HyperPod replace it, with the job ending and restarted by HyperPod as given."""
    configure(world, "webhook")
    service = jobs(world)
    service.start(CLUSTER, "1", [world.key(1).node])
    old = world.instance()
    assert old is not None
    world.clock.advance(timedelta(minutes=1))
    world.fault_and_react(1)
    if ends:
        service.end(CLUSTER, "1", outcome="failed")
    world.advance_minutes(5)
    list(world.cluster.replace([old]))
    if restarts:
        service.start(CLUSTER, "1", [world.key(1).node])
    for _ in range(120):
        world.advance_minutes()
        world.run_inventory()
    assert world.node().incarnation is not None
    assert world.instance() != old
    return service


@pytest.mark.parametrize("ends", [False, True])
def test_a_job_that_hyperpod_resumed_is_not_called_back(ends: bool) -> None:
    with hyperpod_world(RepairOwner.PROVIDER, AUTOMATIC, nodes=2) as world:
        service = repaired_by_hyperpod(world, ends=ends, restarts=ends)
        assert service.show(CLUSTER, "1").state_at(world.clock.now()) == "running"
        assert "hit" in changes(world)
        assert ("resumable" in changes(world), world.callback.received) == (False, [])


def test_a_job_that_was_not_resumed_is_called_back_once_after_the_replacement_by_hyperpod() -> None:
    with hyperpod_world(RepairOwner.PROVIDER, AUTOMATIC, nodes=2) as world:
        repaired_by_hyperpod(world, ends=True, restarts=False)
        assert [name for name in changes(world) if name != "hit"] == ["started", "ended", "resumable", "notified"]
        assert len(world.callback.received) == 1
