"""Each token has its own command: two attempts never take over each other's result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.compute import ssm_commands
from faultbridge.adapters.compute.ssm_commands import COMMENT_CHARACTERS
from faultbridge.domain.cases import RepairAction

CASE = "c-abcdefghijklmnopqrstuvwxyz"
INSTANCE = "i-0123456789abcdef0"


class FakeSsm:
    """SSM Run Command that keeps what was sent, and refuses a comment above its limit of 100 characters."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def send_command(self, **call: Any) -> dict[str, Any]:
        assert len(call["Comment"]) <= 100
        command = {"CommandId": f"command-{len(self.commands)}", "Comment": call["Comment"]}
        self.commands.append(command)
        return {"Command": command}

    def get_paginator(self, _operation: str) -> FakeSsm:
        return self

    def paginate(self, **_: Any) -> Iterator[dict[str, Any]]:
        yield {"Commands": list(reversed(self.commands))}


def send(ssm: FakeSsm, token: str) -> str:
    return ssm_commands.send(ssm, INSTANCE, token, ("true",), seconds=1)


@pytest.mark.parametrize("length", [len(CASE), 60, COMMENT_CHARACTERS, 101, 300])
def test_attempts_of_one_case_never_find_each_others_command(length: int) -> None:
    case = CASE.ljust(length, "x")
    tokens = [f"{case}-{attempt}" for attempt in range(1, 12)]
    tokens += [f"{token} {action.value}" for token in tokens for action in RepairAction]
    ssm = FakeSsm()
    sent: dict[str, str] = {}
    for token in tokens:
        assert ssm_commands.find(ssm, INSTANCE, token) is None
        sent[token] = send(ssm, token)
    assert {token: ssm_commands.find(ssm, INSTANCE, token) for token in tokens} == sent


@given(st.lists(st.text(max_size=250), min_size=2, max_size=2, unique=True))
def test_different_tokens_have_different_comments_within_the_limit(tokens: list[str]) -> None:
    one, other = (ssm_commands.comment_of(token) for token in tokens)
    assert one != other
    assert max(len(one), len(other)) <= COMMENT_CHARACTERS
