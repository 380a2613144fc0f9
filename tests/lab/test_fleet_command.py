"""`faultbridge simulate fleet`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from tests.lab.traces import sample_text


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.json"
    path.write_text(sample_text())
    return str(path)


def test_a_fleet_is_replayed_and_compared(trace: str, capsys) -> None:
    options = ("--nodes", "10", "--days", "2", "--seeds", "2", "--compare", "--json")
    assert run(["simulate", "fleet", "--trace", trace, *options]) == 0
    found = {one["system"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"faultbridge-default", "eks-auto-repair", "never-replace"} <= set(found)
    assert all(one["runs"] == 2 and one["margins"]["lost_gpu_hours"] >= 0 for one in found.values())


def test_a_policy_file_is_used_and_progress_is_on_stderr(trace: str, tmp_path: Path, capsys) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: {concurrent: 0}\n")
    assert run(["simulate", "fleet", "--trace", trace, "--nodes", "10", "--policy", str(policy), "--part", "1/2"]) == 0
    shown = capsys.readouterr()
    assert "GOODPUT" in shown.out
    assert "100 % done" in shown.err


@pytest.mark.parametrize(
    ("options", "text"),
    [(("--part", "5/4"), "not a part"), (("--trace-servers", "1"), "more than 1")],
)
def test_wrong_options_are_refused_in_one_line(trace: str, capsys, options, text) -> None:
    assert run(["simulate", "fleet", "--trace", trace, "--nodes", "10", *options]) != 0
    assert text in capsys.readouterr().err


def test_simulate_without_a_seed_names_both_forms(capsys) -> None:
    assert run(["simulate", "--steps", "3"]) == 2
    assert "--seed" in capsys.readouterr().err
