"""The identity law: the record under its own policy gives the recorded decisions."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from faultbridge.decide.backtest.report import backtest_document
from faultbridge.model.enums import WaitingFor
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule, Window
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from tests.backtest.histories import demo, recorded, replayed, simulated, simulated_fleet
from tests.scenarios.world import CLUSTER, World

pytestmark = pytest.mark.slow

CODES = ("xid.48", "xid.79")


def test_the_demo_under_its_own_policy_gives_its_decisions() -> None:
    events, policy, config = demo()
    result = replayed(events, policy, config)
    assert [(one.recorded, one.replayed) for one in result.decisions] == [
        ("open replace_node for xid.79, queue", "open replace_node for xid.79, queue"),
        ("start replace_node", "start replace_node"),
    ]
    assert result.courses == []
    assert result.gaps == {}


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_a_simulated_history_under_its_own_policy_gives_its_decisions(seed: int) -> None:
    events, policy, config = simulated(seed, 60)
    result = replayed(events, policy, config)
    assert [one for one in result.decisions if not one.same] == []
    assert len(result.decisions) >= 3
    assert result.courses == []


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 7, 11])
def test_a_long_simulated_history_under_its_own_policy_gives_its_decisions(seed: int) -> None:
    events, policy, config = simulated(seed, 60)
    result = replayed(events, policy, config)
    assert [one for one in result.decisions if not one.same] == []
    assert result.courses == []


@pytest.mark.parametrize(
    ("seed", "differing", "explanation"),
    [
        (30, 2, r"recorded under policy [0-9a-f]{12}"),
        (32, 3, r"policy [0-9a-f]{12} was put between "),
    ],
)
def test_a_decision_under_a_policy_that_was_put_meanwhile_is_explained(
    seed: int, differing: int, explanation: str
) -> None:
    events, policy, config = simulated(seed, 60)
    document = backtest_document(config.cluster, events, replayed(events, policy, config), policy.version)
    counts = document.decisions
    assert counts.explained == counts.compared - counts.same == differing
    assert re.match(explanation, document.differences[0].explanation)


def test_a_policy_that_the_record_never_names_explains_nothing() -> None:
    events, policy, config = simulated(30, 60)
    document = backtest_document(config.cluster, events, replayed(events, policy, config), "another")
    assert document.decisions.explained == 0
    assert all(one.explanation is None for one in document.differences)


def test_ten_weeks_of_a_fleet_give_their_decisions() -> None:
    events, policy, config = simulated_fleet(nodes=8, days=75)
    result = replayed(events, policy, config)
    assert [one for one in result.decisions if not one.same] == []
    assert len(result.decisions) >= 40
    assert (result.courses, result.gaps) == ([], {})


def test_a_repair_that_waits_for_the_window_of_a_joined_fault_waits_in_the_replay_too() -> None:
    closed = Window("0 3 1 1 *", timedelta(hours=1))
    at_any_time, in_window = (Rule(code, Match(codes=(code,)), action=Action.REPLACE_NODE) for code in CODES)
    world = World(rules=(at_any_time, replace(in_window, windows=(closed,))))
    world.pause_repairs(paused=True)
    for code in CODES:
        world.fault_and_react(code=code)
    world.pause_repairs(paused=False)
    world.advance_minutes(5)
    assert (world.case().rule, world.case().waiting_for) == (at_any_time.name, WaitingFor.WINDOW)
    config = items.read_config(world.table.get(keys.cluster_config(CLUSTER)) or {})
    decisions = replayed(recorded(world.table, CLUSTER), world.policy, config).decisions
    assert [(one.recorded, one.replayed) for one in decisions][-1] == ("wait", "wait")
    assert decisions[-1].reason == f"no maintenance window of rule {in_window.name} is open"


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_year_of_a_fleet_gives_its_decisions() -> None:
    events, policy, config = simulated_fleet(nodes=12, days=365)
    result = replayed(events, policy, config)
    assert [one for one in result.decisions if not one.same] == []
    assert len(result.decisions) >= 300
    assert (result.courses, result.gaps) == ([], {})


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [6, 20, 47, 58])
def test_each_difference_of_a_long_history_is_explained(seed: int) -> None:
    events, policy, config = simulated(seed, 60)
    counts = backtest_document(config.cluster, events, replayed(events, policy, config), policy.version).decisions
    assert counts.compared == counts.same + counts.explained
