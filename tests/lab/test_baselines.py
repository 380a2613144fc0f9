"""Baselines: other systems' rules on the same hosts and faults as the product."""

from __future__ import annotations

import pytest

from faultbridge.decode.data.policies import default_policy
from tests.lab.baselines import BASELINES
from tests.lab.comparison import compare_systems, run
from tests.lab.traces import scenario

QUIET = scenario(nodes=20, pool=20, days=60, seed=1, false_alarms=0)
SHORT = scenario(nodes=20, pool=20, days=10, seed=1, false_alarms=4)
ANNOUNCED = scenario(nodes=20, pool=20, days=60, seed=1, false_alarms=0, precursors=1.0)
NOISY = scenario(nodes=20, pool=20, days=60, seed=1, false_alarms=40)


def test_never_replace_replaces_no_host_and_loses_the_most_node_hours() -> None:
    never, at_once = (run(QUIET, BASELINES[name]) for name in ("never-replace", "replace-at-once"))
    assert never.replacements == 0 < at_once.replacements
    assert never.lost_by_cause["node_down"] > at_once.lost_by_cause["node_down"]


def test_replace_at_once_replaces_a_host_for_each_false_alarm_and_a_wait_for_none() -> None:
    assert run(NOISY, BASELINES["replace-at-once"]).needless_replacements > 20
    waits = run(NOISY, BASELINES["eks-auto-repair"])
    assert waits.needless_evictions == 0


def test_a_rule_of_removals_restarts_before_it_replaces() -> None:
    removes = run(QUIET, BASELINES["restart-then-replace"])
    assert 0 < removes.replacements < run(QUIET, BASELINES["replace-at-once"]).replacements


def test_nvsentinel_lets_jobs_end_and_calls_an_operator_after_five_repairs() -> None:
    assert run(QUIET, BASELINES["nvsentinel-allow-completion"]).pages_a_week > 0
    assert run(NOISY, BASELINES["nvsentinel-allow-completion"]).needless_evictions == 0


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_states_its_approximation_and_repeats_its_result(name: str) -> None:
    assert BASELINES[name].approximated
    assert run(NOISY, BASELINES[name]) == run(NOISY, BASELINES[name])


def test_the_same_seed_gives_the_same_result_of_the_product() -> None:
    done: list[str] = []
    (product,) = compare_systems([SHORT], {"product": default_policy()}, done.append)
    assert done == ["product: 1 of 1 systems are done"]
    assert product.results == (run(SHORT, default_policy()),)


def test_a_false_alarm_costs_the_product_only_a_save_and_a_precursor_the_work_since_it() -> None:
    noisy, announced = run(NOISY, default_policy()), run(ANNOUNCED, default_policy())
    assert noisy.needless_evictions == announced.needless_evictions == 0
    assert noisy.lost_by_cause["saves"] > 0
    assert announced.lost_by_cause["rollback"] < run(QUIET, default_policy()).lost_by_cause["rollback"] / 2
