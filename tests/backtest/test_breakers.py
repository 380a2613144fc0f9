"""A replay with the recorded breaker limits takes over each recorded opening and close of a breaker."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from faultbridge.decide.backtest.in_step import ClusterReplay
from faultbridge.decide.backtest.record import Commit
from faultbridge.decide.case_moves import Rules
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import BreakerLimit, Control
from faultbridge.model.enums import Actor
from faultbridge.model.recorded import read_event
from faultbridge.model.values import replace
from tests.builders import NOON

LIMIT = BreakerLimit(nodes=3, percent=20, openings=2)


def replay() -> ClusterReplay:
    policy = replace(default_policy(), breakers=(LIMIT,))
    rules = Rules(policy, ClusterConfig("train-a"), load_catalog(), "stack")
    return ClusterReplay(rules, Control("train-a"), {}, policy.breakers)


def change(to: str, at: datetime, actor: Actor = Actor.SWEEP) -> Commit:
    data: dict[str, Any] = {"kind": "breaker", "to": to, "domain": None, "reason": "recorded"}
    return Commit(at, None, actor, (read_event({"metadata": {"event_type": "Cluster Safety Change"}, "data": data}),))


def stays_open(*commits: Commit) -> bool:
    replayed = replay()
    for commit in commits:
        replayed.apply(commit)
    return replayed.control.breakers["cluster"].stays_open


def test_a_breaker_stays_open_in_a_replay_at_the_opening_that_its_limit_names() -> None:
    first, again = change("open", NOON), change("open", NOON + timedelta(hours=2))
    half_open = change("half_open", NOON + timedelta(hours=1))
    assert not stays_open(first)
    assert not stays_open(first, half_open)
    assert stays_open(first, half_open, again)


def test_openings_before_a_close_by_an_operator_or_of_an_earlier_day_do_not_count() -> None:
    closed = change("closed", NOON + timedelta(hours=1), Actor.CLI)
    assert not stays_open(change("open", NOON), closed, change("open", NOON + timedelta(hours=2)))
    assert not stays_open(change("open", NOON), change("open", NOON + timedelta(hours=25)))
