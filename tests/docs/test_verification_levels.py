"""The tables of verification levels in docs/deep-verification.md have the tests, limits and thresholds of the data."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from faultbridge.adapters.hyperpod.provider import BASIC, CONNECTED, CONNECTIVITY, DEEP, STRESS
from tests.architecture.project import ROOT

PAGE = (ROOT / "docs" / "deep-verification.md").read_text("utf-8")
DATA: dict[str, Any] = json.loads(
    (ROOT / "src" / "faultbridge" / "decode" / "data" / "verification" / "deep_tests.json").read_text("utf-8")
)
KINDS = {1: "basic", 2: "standard", 3: "standard", 4: "deep", 5: "pair"}


def row(first: str) -> list[str]:
    """The cells of the row of a table that begins with a text."""
    (line,) = [one for one in PAGE.splitlines() if one.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(("tests", "column"), [("tests", 3), ("peer_tests", 4)])
def test_each_level_names_its_tests_with_their_limits(tests: str, column: int) -> None:
    for level in (1, 2, 3, 4):
        limits = {one["name"]: str(one["seconds"]) for one in DATA[tests] if one["level"] == level}
        assert dict(re.findall(r"`([a-z-]+)` \((\d+) s\)", row(KINDS[level])[column])) == limits


def test_the_tests_of_a_pair_are_those_that_level_5_requires() -> None:
    named = set(re.findall(r"`([a-z-]+)`", row("pair")[4]))
    assert named == {one["name"] for one in DATA["peer_tests"]}
    optional = [one["name"] for one in DATA["peer_tests"] if one.get("optional_below") == 5]
    assert optional == ["nccl-peer-pair"]
    assert "`nccl-peer-pair` (360 s) if its tools are installed" in row("deep")[4]


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_each_level_names_its_level_of_dcgmi(level: int) -> None:
    assert f"`dcgmi diag -r {level}`" in row(KINDS[level])[2]


@pytest.mark.parametrize("level", [BASIC, DEEP, CONNECTED])
def test_each_level_names_the_health_checks_of_hyperpod(level: int) -> None:
    checks = [*([STRESS] if level >= DEEP else []), *([CONNECTIVITY] if level >= CONNECTED else [])]
    assert re.findall(r"`(Instance\w+)`", row(KINDS[level])[5]) == checks


@pytest.mark.parametrize("instance_type", DATA["instance_types"])
def test_each_instance_type_has_its_thresholds(instance_type: str) -> None:
    wanted = DATA["instance_types"][instance_type]
    assert row(instance_type)[1:] == [
        f"{wanted['nccl_gigabytes_per_second']} GB/s",
        f"{wanted['nccl_pair_gigabytes_per_second']} GB/s",
        str(wanted["efa_devices"]),
    ]
