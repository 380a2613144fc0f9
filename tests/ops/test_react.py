"""React: a failed step does not stop the others, and the batch is delivered again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.enums import ClusterStatus
from faultbridge.model.errors import Transient
from faultbridge.model.storage import items, keys
from faultbridge.serve.entrypoints.react import wire_react
from tests.builders import KEY
from tests.sim.fakes import raise_once
from tests.world import XID_79, World


def test_a_failed_step_raises_at_the_end_and_the_other_steps_run(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.outcomes(world.message(XID_79))
    world.ports.seam.before = raise_once(("table.get_many", Transient("throttled")))
    with pytest.raises(Transient, match=f"updating the incidents of {KEY.cluster}"):
        wire_react(world.app).run([(KEY.cluster, KEY.node)])
    (line,) = [line for line in caplog.records if line.message == "part_failed"]
    assert line.__dict__["part"] == f"updating the incidents of {KEY.cluster}"
    assert line.__dict__["reason"] == "Transient: throttled"
    cluster = items.read_cluster(KEY.cluster, world.ports.table.get(keys.cluster_state(KEY.cluster)))
    assert cluster.status is not ClusterStatus.HEALTHY


def test_no_repair_starts_before_the_incidents_were_updated() -> None:
    world = World()
    world.outcomes(world.message(XID_79))
    world.ports.clock.advance(timedelta(hours=1))
    world.ports.seam.before = raise_once(("table.get_many", Transient("throttled")))
    with pytest.raises(Transient, match=f"updating the incidents of {KEY.cluster}"):
        wire_react(world.app).run([(KEY.cluster, KEY.node)])
    assert world.ports.workflow.started == {}
    wire_react(world.app).run([(KEY.cluster, KEY.node)])
    assert len(world.ports.workflow.started) == 1
