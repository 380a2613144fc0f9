"""Nothing of an erased cluster is left in the table, and nothing of another is touched."""

from __future__ import annotations

import pytest

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.errors import Rejected
from faultbridge.ops.erase import Erase
from faultbridge.registry.registration import NewNode
from tests.archive.world import N1, ArchiveWorld


def world() -> ArchiveWorld:
    made = ArchiveWorld(shards=4)
    made.record_history()
    made.registration.add_cluster(ClusterConfig("other"))
    made.registration.add_node("other", NewNode("n-1", "i-0bbbbbbbbbbbbbbb1", aliases=("alias",)))
    return made


def test_nothing_of_an_erased_cluster_is_left_and_another_is_untouched() -> None:
    made = world()
    made.note(N1, "of a job", data={"kind": "operator", "text": "x", "job_id": "4711"})
    others = [item for item in made.table.items() if "train-a" not in str(item)]
    assert Erase(made.table)("train-a") > 20
    assert list(made.table.items()) == others


def test_a_cluster_with_a_live_case_is_not_erased() -> None:
    made = world()
    made.observe_faults(N1)
    before = list(made.table.items())
    with pytest.raises(Rejected, match="cluster_lives"):
        Erase(made.table)("train-a")
    assert list(made.table.items()) == before


def test_what_is_not_registered_cannot_be_erased() -> None:
    with pytest.raises(Rejected, match="unknown_cluster"):
        Erase(world().table)("nowhere")
