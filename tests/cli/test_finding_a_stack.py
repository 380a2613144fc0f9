"""Which stack a command works on, and what it says when there is none."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.cli import stacks
from faultbridge.cli.app import run
from faultbridge.cli.session import Target
from faultbridge.errors import Misconfigured

OUTPUTS = {output: f"the {output}" for output in stacks.OUTPUTS}


@dataclass(frozen=True)
class Embedded:
    """A stack that is up, as `faultbridge.local` tells of it."""

    endpoint: str = "http://127.0.0.1:4566"
    outputs: dict[str, str] = field(default_factory=lambda: dict(OUTPUTS))
    environment: dict[str, str] = field(
        default_factory=lambda: {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_ACCESS_KEY_ID": "test"}
    )


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def found(monkeypatch: pytest.MonkeyPatch, target: Target, embedded: Embedded | None = None) -> tuple[str, list[str]]:
    """The table that is taken, and what was said about it."""
    said: list[str] = []
    monkeypatch.setattr(stacks, "embedded_stack", lambda _stack: embedded)
    on_aws = {**OUTPUTS, "TableName": "on AWS"}
    monkeypatch.setattr("faultbridge.adapters.stack_outputs.stack_outputs", lambda _clients, _stack: on_aws)
    settings = stacks.settings_of(target, Clients, said.append)
    return settings.table, said


def test_an_embedded_stack_that_is_up_is_taken_when_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Target(), Embedded()) == ("the TableName", [])
    assert os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566"


@pytest.mark.parametrize(
    "target", [Target(region="eu-west-1"), Target(profile="work"), Target(endpoint_url="http://x")]
)
def test_an_option_that_names_an_aws_is_stronger_and_is_said(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    table, said = found(monkeypatch, target, Embedded())
    assert table == "on AWS"
    assert len(said) == 1


def test_the_environment_names_an_aws_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert found(monkeypatch, Target(), Embedded())[0] == "on AWS"


def test_the_embedded_stacks_own_endpoint_needs_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Target(endpoint_url="http://127.0.0.1:4566"), Embedded())[1] == []


def test_without_an_embedded_stack_the_outputs_on_aws_say_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Target()) == ("on AWS", [])


def test_every_output_becomes_a_setting() -> None:
    settings = stacks.settings_from("prod", OUTPUTS)
    assert (settings.stack, settings.stack_id, settings.table) == ("prod", "the StackIdentity", "the TableName")
    assert (settings.queue_url, settings.bucket, settings.bus) == (
        "the RawRecordsQueueUrl",
        "the RawBucketName",
        "the EventBusName",
    )
    assert settings.dead_letter_queue_url == "the RawRecordsDeadLettersUrl"


def test_the_clock_of_a_test_stays_what_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTBRIDGE_CLOCK_OFFSET_SECONDS", "60")
    assert stacks.settings_from("prod", OUTPUTS).clock_offset_seconds == 60


def test_a_stack_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stacks, "embedded_stack", lambda _stack: None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    code = run(["cluster", "list", "--endpoint-url", "http://127.0.0.1:9", "--region", "us-east-1"])
    err = capsys.readouterr().err
    assert code == 69
    assert len(err.splitlines()) == 1


def without_a_stack(monkeypatch: pytest.MonkeyPatch, target: Target) -> str:
    """What is said where neither an embedded stack nor one on AWS is found."""
    from botocore.exceptions import ClientError

    class Nothing:
        def describe_stacks(self, **_arguments: str) -> None:
            raise ClientError(
                {"Error": {"Code": "ValidationError", "Message": "Stack with id x does not exist"}}, "DescribeStacks"
            )

    clients = Clients(region="us-east-1")
    monkeypatch.setitem(clients.__dict__, "cloudformation", Nothing())
    monkeypatch.setattr(stacks, "embedded_stack", lambda _stack: None)
    with pytest.raises(Misconfigured) as raised:
        stacks.settings_of(target, lambda: clients, lambda _text: None)
    return str(raised.value)


def test_whoever_has_no_stack_at_all_is_told_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said = without_a_stack(monkeypatch, Target())
    assert "`faultbridge up`" in said
    assert "there is no stack" in said


def test_whoever_named_an_aws_is_not_sent_to_an_embedded_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "faultbridge up" not in without_a_stack(monkeypatch, Target(region="eu-west-1"))
