"""Whether a policy meets the goal against the best baseline."""

from __future__ import annotations

import gc

import pytest

from faultbridge.decode.data.policies import default_policy
from tests.lab.comparison import Compared, run, savings_of
from tests.lab.measures import CAUSES, Measures
from tests.lab.traces import scenario


def compared(name: str, *lost: float, needless: float = 0) -> Compared:
    """Return results of a system: one run for each number of lost GPU-hours."""
    causes = dict.fromkeys(CAUSES, 0.0)
    return Compared(name, tuple(Measures(one, causes, 1, 1, 0, needless, needless, 0, 0, 0) for one in lost))


@pytest.mark.parametrize(
    ("policy", "meets"),
    [
        (compared("policy", 70, 140, 210), True),
        (compared("policy", 70, 140, 210, needless=1), False),
        (compared("policy", 85, 170, 255), False),
        (compared("policy", 10, 190, 120), False),
        (compared("policy", 70), False),
    ],
    ids=["saves 30 %", "more needless evictions", "saves 15 %", "uncertain", "one run"],
)
def test_a_policy_meets_the_goal_only_with_its_whole_interval_and_no_more_needless_evictions(policy, meets) -> None:
    runs = len(policy.results)
    best, other = compared("best", *(100, 200, 300)[:runs]), compared("other", *(900, 900, 900)[:runs])
    saving = savings_of([policy, best, other], ["policy"], ["best", "other"])["policy"]
    assert saving["against"] == "best"
    assert saving["meets_goal"] is meets


def test_a_run_leaves_the_garbage_collection_of_its_process_as_it_was() -> None:
    before = gc.get_freeze_count()
    run(scenario(nodes=4, days=1), default_policy())
    assert gc.get_freeze_count() == before
    gc.unfreeze()
    run(scenario(nodes=4, days=1), default_policy())
    assert gc.get_freeze_count() == 0
    if before:
        gc.freeze()
