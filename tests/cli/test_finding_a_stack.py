"""Finding the stack of a command, and the message when there is none."""

from __future__ import annotations

import os

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.cli.app import run
from faultbridge.cli.render.output import OutputFormat
from faultbridge.cli.stack import locate
from faultbridge.cli.stack.locate import Target
from faultbridge.cli.stack.session import Session
from faultbridge.model.errors import Misconfigured
from tests.cli.builders import OUTPUTS, Embedded


@pytest.fixture(autouse=True)
def no_aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def found(monkeypatch: pytest.MonkeyPatch, target: Target, embedded: Embedded | None = None) -> tuple[str, list[str]]:
    """The table of the stack that was found, and the notices about it."""
    notices: list[str] = []
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: embedded)
    on_aws = {**OUTPUTS, "TableName": "on AWS"}
    monkeypatch.setattr("faultbridge.adapters.aws.stack.stack_outputs", lambda _clients, _stack: on_aws)
    settings = locate.find_settings(target, Clients, notices.append)
    return settings.table, notices


def test_the_embedded_stack_is_the_default_while_it_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Target(), Embedded()) == ("the TableName", [])
    assert os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566"


def test_no_variable_of_the_user_directs_a_client_of_the_embedded_stack_to_another_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_SESSION_TOKEN", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        monkeypatch.setenv(name, "http://elsewhere")
    locate.use_environment(
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_ENDPOINT_URL_EC2": "http://127.0.0.1:4567"}
    )
    left = {name: value for name, value in os.environ.items() if name.startswith(("AWS_ENDPOINT", "AWS_S", "AWS_I"))}
    assert "http://elsewhere" not in left.values()
    assert left["AWS_ENDPOINT_URL_EC2"] == "http://127.0.0.1:4567"
    del os.environ["AWS_ENDPOINT_URL_EC2"]


@pytest.mark.parametrize(
    "target", [Target(region="eu-west-1"), Target(profile="work"), Target(endpoint_url="http://x")]
)
def test_an_aws_option_overrides_the_embedded_stack_with_a_notice(
    monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    table, notices = found(monkeypatch, target, Embedded())
    assert table == "on AWS"
    assert len(notices) == 1


def test_an_aws_environment_variable_overrides_the_embedded_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert found(monkeypatch, Target(), Embedded())[0] == "on AWS"


def test_the_endpoint_of_the_embedded_stack_gives_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Target(endpoint_url="http://127.0.0.1:4566"), Embedded())[1] == []


def test_without_an_embedded_stack_the_outputs_on_aws_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Target()) == ("on AWS", [])


def test_every_output_becomes_a_setting() -> None:
    settings = locate.settings_from("prod", OUTPUTS)
    assert (settings.stack, settings.stack_id, settings.table) == ("prod", "the StackIdentity", "the TableName")
    assert (settings.queue_url, settings.bucket, settings.bus) == (
        "the RawRecordsQueueUrl",
        "the RawBucketName",
        "the EventBusName",
    )
    assert settings.dead_letter_queue_url == "the RawRecordsDeadLettersUrl"


def test_settings_outside_the_outputs_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTBRIDGE_CLOCK_OFFSET_SECONDS", "60")
    assert locate.settings_from("prod", OUTPUTS).clock_offset_seconds == 60


@pytest.mark.slow
def test_an_unreachable_stack_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    code = run(["cluster", "list", "--endpoint-url", "http://127.0.0.1:9", "--region", "us-east-1"])
    err = capsys.readouterr().err
    assert code == 69
    assert len(err.splitlines()) == 1


def without_a_stack(monkeypatch: pytest.MonkeyPatch, target: Target) -> str:
    """The error where neither an embedded stack nor a stack on AWS is found."""
    from botocore.exceptions import ClientError

    class Nothing:
        def describe_stacks(self, **_arguments: str) -> None:
            raise ClientError(
                {"Error": {"Code": "ValidationError", "Message": "Stack with id x does not exist"}}, "DescribeStacks"
            )

    clients = Clients(region="us-east-1")
    monkeypatch.setitem(clients.__dict__, "cloudformation", Nothing())
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: None)
    with pytest.raises(Misconfigured) as raised:
        locate.find_settings(target, lambda: clients, lambda _text: None)
    return str(raised.value)


def test_without_any_stack_the_error_names_the_command_that_starts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    message = without_a_stack(monkeypatch, Target())
    assert "`faultbridge up`" in message
    assert "stack not found" in message


def test_with_an_aws_option_the_error_does_not_suggest_an_embedded_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "faultbridge up" not in without_a_stack(monkeypatch, Target(region="eu-west-1"))


def fail_on_aws(*_arguments: object) -> dict[str, str]:
    raise AssertionError("the command reads a stack on AWS")


@pytest.mark.parametrize(
    "verb", [["create", "lab"], ["break", "n-1", "--cluster", "lab"], ["heal", "n-1", "--cluster", "lab"]]
)
def test_a_fleet_command_whose_embedded_stack_stops_never_uses_aws(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    answers = iter([Embedded()])  # the stack runs only when the command starts
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: next(answers, None))
    monkeypatch.setattr("faultbridge.local.stack_names", list)
    monkeypatch.setattr("faultbridge.adapters.aws.stack.stack_outputs", fail_on_aws)
    code = run(["fleet", *verb])
    assert (code, "this command needs an embedded stack" in capsys.readouterr().err) == (69, True)


def test_a_session_on_the_embedded_stack_has_no_clients_for_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(endpoint_url="https://dynamodb.eu-west-1.amazonaws.com", region="eu-west-1")
    monkeypatch.setattr("faultbridge.local.stack_names", list)
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: None)
    session = Session(target, OutputFormat.JSON, embedded=True)
    for read in (lambda: session.settings, lambda: session.clients, lambda: session.place):
        with pytest.raises(Misconfigured, match="this command needs an embedded stack"):
            read()
    environment = {**Embedded().environment, "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: Embedded(environment=environment))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "real")
    clients = session.clients
    assert clients.dynamodb.meta.endpoint_url == "http://127.0.0.1:4566"
    assert clients.region == "us-east-1"
    credentials = clients.session.get_credentials()
    assert credentials is not None
    assert credentials.secret_key == "test"


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_CLOUDFORMATION"])
def test_an_endpoint_variable_without_a_scheme_is_one_line_with_the_allowed_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv(name, "localhost:4566")
    code, err = run(["cluster", "list"]), capsys.readouterr().err
    assert code == 2
    assert err.startswith(f"faultbridge: invalid {name}: 'localhost:4566'; give a URL with http:// or https://")
    assert len(err.splitlines()) == 1


def test_an_endpoint_option_replaces_an_invalid_endpoint_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:4566")
    session = Session(Target(endpoint_url="http://127.0.0.1:4566", region="us-east-1"), OutputFormat.JSON)
    assert session.clients.region == "us-east-1"


@pytest.mark.parametrize("command", ["deploy", "destroy"])
def test_a_command_that_changes_an_account_names_the_missing_region(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("faultbridge.cli.commands.install.deploy.chosen_embedded_stack", lambda _target: None)
    monkeypatch.setattr("faultbridge.cli.commands.install.deploy.read_packaged", lambda: None)
    monkeypatch.setattr("faultbridge.cli.commands.install.deploy.require_running_code", lambda _packaged: None)
    monkeypatch.setattr("faultbridge.cli.commands.install.deploy._parameters", lambda _packaged, _given: {})
    assert run([command, "--yes"]) == 69
    assert "no AWS region is set; set AWS_REGION, or give --region REGION" in capsys.readouterr().err
