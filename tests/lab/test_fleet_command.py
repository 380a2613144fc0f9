"""`make lab`: a simulated fleet under policies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.cli.app import run as main
from faultbridge.decode.data.policies import default_policy
from tests.lab.__main__ import run
from tests.lab.comparison import named_policy
from tests.lab.traces import sample_text
from tests.lab.tune import Numbers

pytestmark = pytest.mark.slow


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.json"
    path.write_text(sample_text())
    return str(path)


def test_a_fleet_is_replayed_and_compared(trace: str, capsys) -> None:
    options = ("--nodes", "10", "--days", "2", "--seeds", "2", "--compare", "--json")
    assert run(["fleet", "--trace", trace, *options]) == 0
    found = {one["system"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"faultbridge (packaged)", "eks-auto-repair", "never-replace"} <= set(found)
    assert found["eks-auto-repair"]["against_eks"]["lost_by_jobs"]["ratio"] == 1.0
    assert all(one["runs"] == 2 and one["margins"]["lost_gpu_hours"] >= 0 for one in found.values())


def test_a_policy_file_is_used_and_progress_is_on_stderr(trace: str, tmp_path: Path, capsys) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: {concurrent: 0}\n")
    assert run(["fleet", "--trace", trace, "--nodes", "10", "--policy", str(policy), "--part", "1/2"]) == 0
    shown = capsys.readouterr()
    assert "GOODPUT" in shown.out
    assert "1 of 1 systems" in shown.err


@pytest.mark.parametrize(
    ("options", "text"),
    [(("--part", "5/4"), "not a part"), (("--trace-servers", "1"), "more than 1")],
)
def test_wrong_options_are_refused_in_one_line(trace: str, capsys, options, text) -> None:
    assert run(["fleet", "--trace", trace, "--nodes", "10", *options]) != 0
    assert text in capsys.readouterr().err


def test_several_parts_and_policies_are_compared_in_one_table_and_drawn(trace: str, tmp_path: Path, capsys) -> None:
    policy, charts = tmp_path / "policy.yaml", tmp_path / "charts"
    policy.write_text("limits: {concurrent: 1}\n")
    given = ["--nodes", "10", "--days", "2", "--part", "1/2", "--part", "2/2", "--plots", str(charts)]
    given += ["--policy", "packaged", "--policy", str(policy), "--json"]
    assert run(["fleet", "--trace", trace, *given]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["runs"] for one in found] == [2, 2]
    assert [one["system"] for one in found] == ["faultbridge (packaged)", "policy.yaml"]
    assert sorted(path.name for path in charts.iterdir()) == ["lost-gpu-hours.svg"]
    assert "policy.yaml" in (charts / "lost-gpu-hours.svg").read_text(encoding="utf-8")


def test_shares_of_precursors_are_drawn_as_a_curve(trace: str, tmp_path: Path, capsys) -> None:
    given = ["--nodes", "10", "--days", "2", "--compare", "--plots", str(tmp_path), "--json"]
    assert run(["fleet", "--trace", trace, *given, "--precursors", "0", "--precursors", "100"]) == 0
    assert {one["precursors"] for one in json.loads(capsys.readouterr().out)} == {0, 100}
    assert (tmp_path / "precursors.svg").is_file()


@pytest.mark.nightly
def test_a_search_starts_with_the_packaged_policy_and_writes_a_valid_one(trace: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "tuned.yaml"
    given = ["--nodes", "8", "--trials", "2", "--parts", "2", "--out", str(out), "--json"]
    assert named_policy(Numbers().text(), "first")[1].rules == default_policy().rules
    assert run(["tune", "--trace", trace, *given]) == 0
    assert {"faultbridge (packaged)", "tuned.yaml"} <= {one["system"] for one in json.loads(capsys.readouterr().out)}
    assert main(["policy", "check", str(out)]) == 0
