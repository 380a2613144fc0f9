"""Pages of the documentation state what the code has: costs, terms, tests, orders and levels."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.adapters.hyperpod.provider import BASIC, CONNECTED, CONNECTIVITY, DEEP, STRESS
from faultbridge.decide.answers import answer_table
from infra.docs.runbooks import END
from tests.architecture.project import ROOT
from tests.cli.desk import Desk
from tests.cli.orders import case_for_approval

_MEASURED = re.compile(r"^\| ([\d,]+) (idle|at 0\.03 events/s) \|[^*]*\*\*([\d,.]+)\*\*", re.MULTILINE)
_STATED = re.compile(r"^\| ([\d,]+) \| ([\d,.]+) \| ([\d,.]+) \|$", re.MULTILINE)


def test_the_costs_in_the_deployment_guide_are_the_measured_ones() -> None:
    measured: dict[str, dict[str, str]] = {}
    for nodes, load, price in _MEASURED.findall((ROOT / "docs/benchmarks.md").read_text()):
        measured.setdefault(nodes, {})[load] = price
    stated = _STATED.findall((ROOT / "docs/deploy.md").read_text())
    assert [nodes for nodes, *_ in stated] == ["1", "100", "1,000", "12,500"]
    assert {nodes: {"idle": idle, "at 0.03 events/s": busy} for nodes, idle, busy in stated} == measured


GLOSSARY = (Path(__file__).resolve().parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^(\S[^\n]*)\n:   ((?:.+\n)(?:    .+\n)*)", GLOSSARY, re.MULTILINE))


@pytest.mark.parametrize(
    "term",
    ["Absorbed", "Canary", "Case", "Generation", "Incarnation", "Late", "Mode", "Points", "Shard", "Stream"],
)
def test_a_term_is_explained(term: str) -> None:
    assert len(ENTRIES[term].split()) >= 8


def test_no_term_has_two_entries() -> None:
    titles = re.findall(r"^(\S[^\n]*)\n:   ", GLOSSARY, re.MULTILINE)
    assert len(titles) == len(set(titles)) == len(ENTRIES)


NAME = re.compile(r"\b(tests/[\w/]*\btest_\w+\.py)::(\w+)")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
DEFECTS = yaml.safe_load(Path(__file__).with_name("required_tests.yaml").read_text(encoding="utf-8"))


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of the test functions of a file, also of those in classes."""
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))


def missing(texts: Iterable[str]) -> list[str]:
    """Return the names of tests in texts that are no test function of their file."""
    named = sorted({found for text in texts for found in NAME.findall(text)})
    return [f"{path}::{name}" for path, name in named if not name.startswith("test_") or name not in functions_of(path)]


def test_a_named_test_exists() -> None:
    assert missing(page.read_text(encoding="utf-8") for page in PAGES) == []


def test_each_defect_that_was_found_by_hand_has_a_test() -> None:
    assert len(DEFECTS) >= 26
    assert [row["defect"] for row in DEFECTS if not row["tests"] or missing(row["tests"])] == []
    assert all(NAME.fullmatch(name) for row in DEFECTS for name in row["tests"])


def test_a_test_that_does_not_exist_is_named() -> None:
    assert missing(["see tests/docs/test_pages.py::test_of_nothing"]) == ["tests/docs/test_pages.py::test_of_nothing"]


RUNBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "runbooks").glob("*.md"))


def written(runbook: Path) -> str:
    """Return what is written by hand in a runbook: what follows the states from the table of answers."""
    return runbook.read_text(encoding="utf-8").rpartition(END)[2]


REPLACING = [path for path in RUNBOOKS if "node replace" in written(path)]


@pytest.mark.parametrize("runbook", REPLACING, ids=lambda path: path.stem)
def test_a_runbook_names_return_and_replacement_in_the_order_of_the_table_of_answers(runbook: Path) -> None:
    text = written(runbook)
    failed = answer_table().rows["case.escalated.verify_failed"]
    orders = ["node replace", "node return"] if runbook.stem == failed.runbook else ["node return", "node replace"]
    assert 0 <= text.find(orders[0]) < text.find(orders[1])
    of_table = [
        [name for step in row.you for name in orders if step.command and f" {name} " in step.command]
        for row in answer_table().rows.values()
        if row.runbook == runbook.stem and runbook.stem.startswith("reason-") and len(row.you) == 2
    ]
    assert all(given in ([], orders) for given in of_table)


def test_some_runbooks_give_both_orders() -> None:
    assert len(REPLACING) >= 8


def test_stuck_proposes_the_return_of_an_escalated_node(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    desk = Desk(monkeypatch, capfdbinary)
    case = case_for_approval(desk)
    desk.json("case", "deny", case, "--reason", "needed")
    (escalated,) = desk.json("stuck")
    assert escalated["command"].startswith("faultbridge node return ")


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
