"""The prices that docs/deploy.md states are those that docs/benchmarks.md has measured."""

from __future__ import annotations

import re

from tests.architecture.project import ROOT

_MEASURED = re.compile(r"^\| ([\d,]+) (idle|at 0\.03 events/s) \|[^*]*\*\*([\d,.]+)\*\*", re.MULTILINE)
_STATED = re.compile(r"^\| ([\d,]+) \| ([\d,.]+) \| ([\d,.]+) \|$", re.MULTILINE)


def test_the_costs_in_the_deployment_guide_are_the_measured_ones() -> None:
    measured: dict[str, dict[str, str]] = {}
    for nodes, load, price in _MEASURED.findall((ROOT / "docs/benchmarks.md").read_text()):
        measured.setdefault(nodes, {})[load] = price
    stated = _STATED.findall((ROOT / "docs/deploy.md").read_text())
    assert [nodes for nodes, *_ in stated] == ["1", "100", "1,000", "12,500"]
    assert {nodes: {"idle": idle, "at 0.03 events/s": busy} for nodes, idle, busy in stated} == measured
