"""Each token has its own command: two attempts never take over each other's result."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.ec2 import commands
from faultbridge.adapters.ec2.commands import COMMENT_CHARACTERS, THROTTLE_RETRY
from faultbridge.model.enums import RepairAction
from faultbridge.model.values import replace
from tests.adapters.stubs import client_error, served

CASE = "c-abcdefghijklmnopqrstuvwxyz"
INSTANCE = "i-0123456789abcdef0"


class FakeRunCommand:
    """SSM Run Command (fake) that keeps what was sent, newest first, and refuses a comment above 100 characters."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def send_command(self, **call: Any) -> dict[str, Any]:
        assert len(call["Comment"]) <= 100  # botocore does not check the length of a text
        command = {"CommandId": f"{len(self.commands):036d}", "Comment": call["Comment"]}
        self.commands.insert(0, command)
        return {"Command": command}

    def list_commands(self, *, InstanceId: str, NextToken: str = "0") -> dict[str, Any]:  # noqa: N803 - AWS's
        assert InstanceId == INSTANCE
        first = int(NextToken)
        answer = {"Commands": self.commands[first : first + 50]}
        return answer | ({"NextToken": str(first + 50)} if first + 50 < len(self.commands) else {})


def send(ssm: Any, token: str) -> str:
    return commands.send(ssm, INSTANCE, token, ("true",), seconds=1)


@pytest.mark.parametrize("length", [len(CASE), 60, COMMENT_CHARACTERS, 101, 300])
def test_attempts_of_one_case_never_find_each_others_command(length: int) -> None:
    case = CASE.ljust(length, "x")
    tokens = [f"{case}-{attempt}" for attempt in range(1, 12)]
    tokens += [f"{token} {action.value}" for token in tokens for action in RepairAction]
    sent: dict[str, str] = {}
    with served("ssm", FakeRunCommand()) as clients:
        for token in tokens:
            assert commands.find(clients.ssm, INSTANCE, token) is None
            sent[token] = send(clients.ssm, token)
        assert {token: commands.find(clients.ssm, INSTANCE, token) for token in tokens} == sent


@given(st.lists(st.text(max_size=250), min_size=2, max_size=2, unique=True))
def test_different_tokens_have_different_comments_within_the_limit(tokens: list[str]) -> None:
    one, other = (commands.comment_of(token) for token in tokens)
    assert one != other
    assert max(len(one), len(other)) <= COMMENT_CHARACTERS


class FailingRunCommand(FakeRunCommand):
    """SSM Run Command (fake) that refuses the first calls with these errors."""

    def __init__(self, *errors: ClientError) -> None:
        super().__init__()
        self.errors = list(errors)

    def send_command(self, **call: Any) -> dict[str, Any]:
        if self.errors:
            raise self.errors.pop(0)
        return super().send_command(**call)


def test_a_throttled_command_is_sent_again_after_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="faultbridge")
    pauses: list[float] = []
    retry = replace(THROTTLE_RETRY, sleep=pauses.append, jitter=lambda: 1.0)
    fake = FailingRunCommand(client_error("ThrottlingException"), client_error("Unknown", status=429))
    with served("ssm_no_retry", fake) as clients:
        commands.send(clients.ssm_no_retry, INSTANCE, CASE, ("true",), seconds=1, retry=retry)
    assert len(fake.commands) == 1
    assert pauses == [0.2, 0.4]
    assert [record.message for record in caplog.records] == ["command_throttled"] * 2


@pytest.mark.parametrize(
    ("error", "unused"),
    [(client_error("InternalServerError", status=500), 8), (client_error("ThrottlingException"), 5)],
)
def test_a_command_that_may_have_been_sent_is_never_sent_again_and_a_throttled_one_at_most_three_times(
    error: ClientError, unused: int
) -> None:
    fake = FailingRunCommand(*[error] * 9)
    with served("ssm_no_retry", fake) as clients, pytest.raises(ClientError, match="words"):
        commands.send(
            clients.ssm_no_retry,
            INSTANCE,
            CASE,
            ("true",),
            seconds=1,
            retry=replace(THROTTLE_RETRY, sleep=lambda _: None),
        )
    assert len(fake.errors) == unused
