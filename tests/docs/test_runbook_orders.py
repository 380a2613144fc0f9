"""Runbooks, pages and `faultbridge stuck` give one order to a node whose case is escalated: first verify the instance.

`node return` verifies and releases nothing; `node replace` releases an instance, which may be healthy by then.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.serve.pager.rules import OPERATOR_RULES
from tests.cli.desk import Desk
from tests.cli.orders import case_for_approval

RUNBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "runbooks").glob("*.md"))
REPLACING = [path for path in RUNBOOKS if "node replace" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("runbook", REPLACING, ids=lambda path: path.stem)
def test_a_runbook_names_the_return_through_verification_before_the_replacement(runbook: Path) -> None:
    text = runbook.read_text(encoding="utf-8")
    assert 0 <= text.find("node return") < text.find("node replace")


def test_some_runbooks_give_both_orders() -> None:
    assert len(REPLACING) >= 8


def test_a_page_names_the_return_before_the_replacement() -> None:
    texts = [rule.action_required for rule in OPERATOR_RULES if "node return" in rule.action_required]
    assert texts
    assert all("node replace" not in text or text.find("node return") < text.find("node replace") for text in texts)


def test_stuck_proposes_the_return_of_an_escalated_node(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    desk = Desk(monkeypatch, capfdbinary)
    case = case_for_approval(desk)
    desk.json("case", "deny", case, "--reason", "needed")
    (escalated,) = desk.json("stuck")
    assert escalated["command"].startswith("faultbridge node return ")
