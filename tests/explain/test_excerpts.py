"""The ends of 223 jobs in 20 frameworks: none is stopped wrongly, and the measured figures are the lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from faultbridge.explain.verdict.verdict import Verdict
from faultbridge.model.enums import Outlook
from tests.explain.verdicts import verdict

FILE = Path(__file__).parent / "corpus" / "excerpts.yaml"


@cache
def verdicts() -> tuple[tuple[Mapping[str, Any], Verdict], ...]:
    rows = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return tuple((row, verdict(row["log"], nodes={})) for row in rows)


def test_no_excerpt_of_a_job_that_may_restart_stops_it() -> None:
    assert len({row["name"] for row, _ in verdicts()}) == len(verdicts()) == 223
    stopped = [row["name"] for row, one in verdicts() if one.outlook is Outlook.STOP and row["verdict"] != "STOP"]
    assert stopped == []


def test_restart_or_stop_and_the_domain_are_right_in_as_many_excerpts_as_were_measured() -> None:
    right = [row["name"] for row, one in verdicts() if (row["verdict"] == "STOP") is (one.outlook is Outlook.STOP)]
    named = [row["name"] for row, one in verdicts() if one.domain in {row["domain"], *row.get("also", ())}]
    assert len(right) >= 218
    assert len(named) >= 219


def test_no_hardware_is_blamed_without_the_logs_of_a_node() -> None:
    assert [row["name"] for row, one in verdicts() if one.nodes or one.hardware.state == "blamed"] == []
