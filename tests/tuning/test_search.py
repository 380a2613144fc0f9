"""The search tries policies, keeps the best trade-offs, and chooses without more needless evictions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.cli.app import run
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.errors import Misconfigured
from faultbridge.model.policy import Policy
from tests.lab.command import run as lab
from tests.lab.comparison import named_policy
from tests.lab.traces import sample_text, scenario
from tests.lab.tuning.search import Tried, best_tradeoffs, chosen, search
from tests.lab.tuning.search_space import ACTIONS, Numbers

pytestmark = pytest.mark.nightly  # of a tool of maintainers, which nothing that is installed contains

NUMBERS = st.builds(
    Numbers,
    st.integers(0, 60),
    st.integers(0, 20),
    st.integers(1, 16),
    st.integers(5, 60),
    st.integers(1, 5),
    st.integers(0, 7),
    st.integers(10, 50),
    st.sampled_from(sorted(ACTIONS)),
    st.booleans(),
)
TRIED = st.lists(st.builds(Tried, st.just(Numbers()), st.floats(0, 9), st.floats(0, 9)), min_size=1)


@given(NUMBERS)
def test_all_numbers_give_a_valid_policy_with_breakers(numbers: Numbers) -> None:
    _, policy = named_policy(numbers.text())
    assert isinstance(policy, Policy)
    assert policy.limits.concurrent == numbers.concurrent
    assert policy.rules[0].isolate is not numbers.keep_in_service
    assert len(policy.breakers) == 2


def test_the_first_numbers_are_close_to_the_packaged_policy() -> None:
    _, policy = named_policy(Numbers().text())
    packaged = default_policy()
    assert isinstance(policy, Policy)
    assert (policy.limits, policy.breakers) == (packaged.limits, packaged.breakers)
    assert policy.rules[1] == packaged.rules[1]


@given(TRIED)
def test_no_tradeoff_is_beaten_and_the_choice_evicts_no_more(tried: list[Tried]) -> None:
    best = best_tradeoffs(tried)
    assert best
    assert not any(one.is_beaten_by(other) for one in best for other in tried)
    assert chosen(tried).needless_evictions <= tried[0].needless_evictions
    assert chosen(tried).lost_gpu_hours <= tried[0].lost_gpu_hours


def test_the_same_seed_tries_the_same_policies_and_isolates_unless_permitted() -> None:
    fleets = [scenario(nodes=8, days=3)]
    first, again = (search(fleets, 4, 7, may_keep_in_service=False, progress=lambda _: None) for _ in range(2))
    assert first == again
    assert first[0].numbers == Numbers()
    assert not any(one.numbers.keep_in_service for one in first)


def test_without_optuna_the_command_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(Misconfigured, match=r"make setup"):
        search([], 1, 1, may_keep_in_service=False, progress=lambda _: None)


def test_the_file_has_its_evidence_and_is_a_valid_policy(tmp_path: Path, capsys) -> None:
    trace, out, charts = tmp_path / "trace.json", tmp_path / "tuned.yaml", tmp_path / "charts"
    trace.write_text(sample_text(days=8))
    given = ["--trace", str(trace), "--nodes", "8", "--trials", "2", "--seeds", "1", "--parts", "2"]
    assert lab(["tune", *given, "--out", str(out), "--plots", str(charts), "--json"]) == 0
    judged = {one["system"]: one["saving"] for one in json.loads(capsys.readouterr().out)}
    text = out.read_text(encoding="utf-8")
    assert "# Judged on parts 2 to 2" in text
    assert "faultbridge-default" in judged
    assert set(yaml.safe_load(text)) == {"limits", "breakers", "rules"}
    assert (charts / "tradeoffs.svg").is_file()
    assert run(["policy", "check", str(out)]) == 0
