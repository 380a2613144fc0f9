"""Failed attempts: when a case may be retried, and which node becomes `failed` when its case is escalated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cases import Attempt, Phase
from faultbridge.model.enums import NodeStatus
from faultbridge.model.values import replace
from faultbridge.repair.attempt.progress import escalate_case, retry_time
from tests.builders import NOON, node
from tests.repair.builders import CASE


@pytest.mark.parametrize(
    ("attempts", "minutes"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30), (400, 30)]
)
def test_a_case_is_retried_after_a_minute_that_doubles_with_each_attempt_up_to_half_an_hour(
    attempts: int, minutes: int
) -> None:
    assert retry_time(replace(CASE, attempts=attempts), NOON) == NOON + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("before", "fails", "after"),
    [
        (NodeStatus.VALIDATING, True, NodeStatus.FAILED),
        (NodeStatus.VALIDATING, False, NodeStatus.VALIDATING),
        (NodeStatus.QUARANTINED, True, NodeStatus.QUARANTINED),
    ],
)
def test_an_escalation_fails_only_a_node_that_an_attempt_has_begun_to_repair(
    before: NodeStatus, fails: bool, after: NodeStatus
) -> None:
    state = node(before, case=replace(CASE, attempts=1, attempt=Attempt(1, Phase.DRAINING)))
    assert escalate_case(state, NOON, "an operator must look", fails=fails).state.status is after
