"""How the losses of systems are compared."""

from __future__ import annotations

import gc

import pytest

from faultbridge.decode.data.policies import default_policy
from tests.lab.baselines import EKS
from tests.lab.comparison import Compared, documents_of, ratio, run
from tests.lab.jobs import CAUSES
from tests.lab.measures import Measures, interval
from tests.lab.traces import scenario


def compared(name: str, *lost: float) -> Compared:
    """Return results of a system: one run for each number of lost GPU-hours."""
    causes = dict.fromkeys(CAUSES, 0.0)
    return Compared(name, tuple(Measures(one, one / 2, causes, 1, 0, 0, 0, 0, 0) for one in lost))


def test_losses_are_compared_by_sum_and_by_pairs() -> None:
    ours, eks = compared("ours", 90, 210, 300), compared(EKS, 100, 200, 300)
    found = {one["system"]: one["against_eks"] for one in documents_of([ours, eks], 30)}
    assert found["ours"]["lost_gpu_hours"]["ratio"] == found["ours"]["lost_by_jobs"]["ratio"] == 1.0
    assert found[EKS]["lost_gpu_hours"] == {"ratio": 1.0, "margin": 0.0}
    margin = ratio(ours, eks, "lost_gpu_hours").margin
    assert margin == pytest.approx(interval([-10.0, 10.0, 0.0]).margin / 200)
    assert ratio(compared("ours", 80, 160, 240), eks, "lost_gpu_hours").mean == pytest.approx(0.8)
    assert documents_of([ours])[0]["against_eks"] == {}


def test_a_run_leaves_the_garbage_collection_of_its_process_as_it_was() -> None:
    before = gc.get_freeze_count()
    run(scenario(nodes=4, days=1), default_policy())
    assert gc.get_freeze_count() == before
    gc.unfreeze()
    run(scenario(nodes=4, days=1), default_policy())
    assert gc.get_freeze_count() == 0
    if before:
        gc.freeze()
