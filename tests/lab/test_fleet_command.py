"""`make lab`: a simulated fleet under policies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.command import run
from tests.lab.traces import sample_text

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
    assert {"faultbridge-default", "eks-auto-repair", "never-replace"} <= set(found)
    saving = found["faultbridge-default"]["saving"]
    assert saving["against"] in found
    assert saving["meets_goal"] is False
    assert found["never-replace"]["saving"] is None
    assert all(one["runs"] == 2 and one["margins"]["lost_gpu_hours"] >= 0 for one in found.values())


def test_a_policy_file_is_used_and_progress_is_on_stderr(trace: str, tmp_path: Path, capsys) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: {concurrent: 0}\n")
    assert run(["fleet", "--trace", trace, "--nodes", "10", "--policy", str(policy), "--part", "1/2"]) == 0
    shown = capsys.readouterr()
    assert "GOODPUT" in shown.out
    assert "100 % done" in shown.err


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
    assert found[0]["system"] == "faultbridge-default"
    assert sorted(path.name for path in charts.iterdir()) == ["lost-gpu-hours.svg", "needless-evictions.svg"]
    assert found[1]["system"] in (charts / "lost-gpu-hours.svg").read_text(encoding="utf-8")
