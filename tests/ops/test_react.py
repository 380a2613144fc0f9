"""React: an entry is a doorbell; one that cannot be answered rings again, and keeps no other from its turn."""

from __future__ import annotations

import pytest

from faultbridge.domain.clusters import ClusterStatus
from faultbridge.errors import Transient
from faultbridge.simulation.fakes import raise_once
from faultbridge.storage import items, keys
from tests.builders import KEY
from tests.world import XID_79, World


def test_a_doorbell_that_could_not_be_answered_rings_again_and_the_others_are_answered() -> None:
    world = World()
    world.outcomes(world.message(XID_79))
    world.ports.seam.before = raise_once(("table.get", Transient("throttled")))
    with pytest.raises(Transient, match=f"guarding {KEY.cluster}"):
        world.app.ops.react([(KEY.cluster, KEY.node)])
    cluster = items.read_cluster(KEY.cluster, world.ports.table.get(keys.cluster_state(KEY.cluster)))
    assert cluster.status is not ClusterStatus.HEALTHY
