"""The identity law: the record under its own policy gives the recorded decisions."""

from __future__ import annotations

import pytest

from tests.backtest.histories import demo, replayed, simulated


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
