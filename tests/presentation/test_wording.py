"""Names of the record as words; the words of a source or of an operator stay as they are."""

from __future__ import annotations

import pytest

from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.serve.presentation.tones import ACTION_TEXTS, action_text, detail_text, reason_text, why_text


@pytest.mark.parametrize("code", ProviderFailure)
def test_a_failure_code_is_said_in_words(code: ProviderFailure) -> None:
    reason = f"{code.value}: no route", code, "no route"
    shown = why_text(*reason)
    assert shown.endswith(": no route")
    assert code.value not in shown
    assert detail_text(*reason) == "no route"


@pytest.mark.parametrize("action", RepairAction)
def test_a_repair_action_in_a_reason_is_said_in_words(action: RepairAction) -> None:
    assert action.value in ACTION_TEXTS
    assert "_" not in reason_text(f"{action.value} requires approval: rule ask-first") + action_text(action)


@pytest.mark.parametrize(
    "text",
    ["node/replace_node.sh failed", "rule replace_node-later", "run `replace_node`", "WAIT: later", "xid.79", ""],
)
def test_other_text_is_not_changed(text: str) -> None:
    assert reason_text(text) == text
