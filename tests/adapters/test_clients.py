"""Clients of AWS: their settings, the observer of calls, roles in other accounts, and errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ReadTimeoutError,
    UnknownServiceError,
)
from botocore.parsers import ResponseParserError
from moto import mock_aws

from faultbridge.adapters.aws.clients import Clients, new_session
from faultbridge.adapters.aws.errors import translate, translated
from faultbridge.adapters.ec2.inventory import InstanceRoles
from faultbridge.model.cluster.config import ProviderRole
from faultbridge.model.errors import Conflict, FaultbridgeError, Misconfigured, Transient
from tests.adapters.stubs import ENVIRONMENT, client_error, stubbed


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def test_a_client_is_created_on_first_use() -> None:
    with mock.patch("faultbridge.adapters.aws.clients.Session") as session:
        clients = Clients()
        session.assert_not_called()
        assert clients.sqs is clients.sqs
        assert session.return_value.create_client.call_count == 1


def test_every_client_has_time_limits_and_a_bounded_number_of_attempts() -> None:
    clients = Clients()
    for client in (clients.dynamodb, clients.events, clients.sqs, clients.s3, clients.sns, clients.ssm, clients.ec2):
        config: Any = client.meta.config
        assert config.connect_timeout <= 5
        assert config.read_timeout <= 20
        assert config.retries == {"mode": "standard", "total_max_attempts": 4}


@pytest.mark.parametrize("name", ["ec2_no_retry", "autoscaling_no_retry", "ssm_no_retry", "sagemaker_no_retry"])
def test_a_client_for_calls_that_must_not_be_repeated_never_retries(name: str) -> None:
    config: Any = getattr(Clients(), name).meta.config
    assert config.retries == {"mode": "standard", "total_max_attempts": 1}


@pytest.mark.parametrize(("function", "checked"), [(None, [True, True, True]), ("ingest", [False, True, True])])
def test_only_the_calls_of_a_function_to_the_table_skip_the_check_of_their_parameters(
    monkeypatch: pytest.MonkeyPatch, function: str | None, checked: list[bool]
) -> None:
    if function is not None:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", function)
    session = mock.Mock()
    clients = Clients(session=lambda: session)
    assert all((clients.dynamodb, clients.s3, clients.ec2))
    assert [call.kwargs["config"].parameter_validation for call in session.create_client.call_args_list] == checked


def test_the_endpoint_of_a_service_overrides_the_endpoint_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:5000")
    monkeypatch.setenv("AWS_ENDPOINT_URL_AUTO_SCALING", "http://127.0.0.1:5001")
    clients = Clients(endpoint_url="http://127.0.0.1:4566")
    assert clients.dynamodb.meta.endpoint_url == "http://127.0.0.1:4566"
    assert clients.ec2.meta.endpoint_url == "http://127.0.0.1:5000"
    assert clients.autoscaling.meta.endpoint_url == "http://127.0.0.1:5001"


def test_endpoint_variables_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", "http://127.0.0.1:5000")
    clients = Clients()
    assert clients.events.meta.endpoint_url == "http://127.0.0.1:4566"
    assert clients.ssm.meta.endpoint_url == "http://127.0.0.1:5000"
    config: Any = clients.s3.meta.config
    assert config.s3["addressing_style"] == "path"


@mock_aws
def test_the_observer_is_called_for_every_api_call() -> None:
    calls: list[tuple[str, str]] = []
    clients = Clients(observe=lambda service, operation: calls.append((service, operation)))
    clients.sqs.create_queue(QueueName="q")
    clients.s3.list_buckets()
    assert calls == [("sqs", "CreateQueue"), ("s3", "ListBuckets")]


def test_clients_for_a_role_assume_it_with_its_external_id() -> None:
    role = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "shared-by-both")
    with mock_aws():
        own = Clients()
        requests: list[Any] = []
        own.sts.meta.events.register(
            "before-parameter-build.sts.AssumeRole", lambda params, **_: requests.append(params)
        )
        others = own.for_role(role)
        assert requests == []
        assert others.sts.get_caller_identity()["Arn"].startswith("arn:aws:sts::222233334444:assumed-role/faultbridge/")
        assert own.sts.get_caller_identity()["Account"] == "123456789012"
    assert requests == [{"RoleArn": role.arn, "ExternalId": "shared-by-both", "RoleSessionName": "faultbridge"}]
    assert own.for_role(role) is others


@pytest.mark.parametrize(
    ("option", "variables", "region"),
    [
        (None, {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}, "eu-west-1"),
        (None, {"AWS_REGION": "", "AWS_DEFAULT_REGION": "us-east-1"}, "us-east-1"),
        ("ap-south-1", {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}, "ap-south-1"),
    ],
)
def test_the_region_is_that_of_the_option_then_of_aws_region_then_of_botocore(
    monkeypatch: pytest.MonkeyPatch, option: str | None, variables: dict[str, str], region: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Clients(region=option).region == region


def test_no_folder_of_a_service_is_read_to_list_the_services() -> None:
    loader = new_session().get_component("data_loader")
    read: list[Path] = []
    real = os.scandir
    with mock.patch.object(os, "scandir", lambda folder: read.append(folder) or real(folder)):
        assert set(loader.list_available_services("service-2")) >= {"dynamodb", "sqs"}
    assert {folder.name for folder in read} <= {"data", "models"}


@pytest.mark.parametrize("file", ["endpoints.json", "_retry.json"])
def test_a_file_beside_the_folders_of_the_services_is_no_service(file: str) -> None:
    with pytest.raises(UnknownServiceError, match=file):
        new_session("eu-west-1").create_client(file)


def test_a_session_knows_the_models_in_the_folders_of_the_data_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = tmp_path / "custom" / "2020-01-01" / "service-2.json"
    model.parent.mkdir(parents=True)
    model.write_text('{"metadata": {"serviceId": "custom"}}')
    monkeypatch.setenv("MODELS", str(tmp_path))
    monkeypatch.setenv("AWS_DATA_PATH", "$MODELS")
    session = new_session("eu-west-1")
    assert session.get_service_model("custom").service_id == "custom"
    with pytest.raises(UnknownServiceError, match="'no-such-service'"):
        session.create_client("no-such-service")


URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("ConditionalCheckFailedException", 400, Conflict),
        ("TransactionConflictException", 400, Conflict),
        ("ProvisionedThroughputExceededException", 400, Transient),
        ("ThrottlingException", 400, Transient),
        ("RequestLimitExceeded", 503, Transient),
        ("SlowDown", 503, Transient),
        ("TransactionInProgressException", 400, Transient),
        ("SomethingNew", 500, Transient),
        ("SomethingNew", 429, Transient),
        ("SomethingNew", 400, Misconfigured),
        ("AccessDeniedException", 400, Misconfigured),
        ("ResourceNotFoundException", 400, Misconfigured),
        ("ValidationException", 400, Misconfigured),
        ("ExpiredTokenException", 400, Transient),
        ("UnrecognizedClientException", 400, Transient),
        ("KMS.ThrottlingException", 400, Transient),
    ],
)
def test_an_error_response_becomes_the_matching_error(code: str, status: int, kind: type[FaultbridgeError]) -> None:
    error = translate(client_error(code, "why", status), "reading")
    assert type(error) is kind
    assert str(error) == f"reading: {code}: why"


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (EndpointConnectionError(endpoint_url=URL), Transient),
        (ConnectTimeoutError(endpoint_url=URL), Transient),
        (ReadTimeoutError(endpoint_url=URL), Transient),
        (ResponseParserError("<html>"), Transient),
        (NoCredentialsError(), Misconfigured),
        (NoRegionError(), Misconfigured),
        (ParamValidationError(report="x"), Misconfigured),
        (BotoCoreError(), Misconfigured),
    ],
)
def test_a_lost_response_is_transient_and_a_bad_setting_is_misconfigured(
    cause: Exception, kind: type[FaultbridgeError]
) -> None:
    with pytest.raises(kind) as raised, translated("reading"):
        raise cause
    assert raised.value.__cause__ is cause


@pytest.mark.parametrize(
    ("cause", "settings"),
    [(NoRegionError(), ("AWS_REGION", "--region")), (NoCredentialsError(), ("AWS_PROFILE", "--profile"))],
)
def test_a_missing_setting_is_named_without_the_words_of_boto(cause: Exception, settings: tuple[str, ...]) -> None:
    text = str(translate(cause, "reading"))
    assert str(cause) not in text
    assert all(one in text for one in settings)


def test_other_errors_are_not_converted() -> None:
    with pytest.raises(KeyError), translated("reading"):
        raise KeyError


PROFILE = {"IamInstanceProfile": {"Arn": "arn:aws:iam::111122223333:instance-profile/path/gpu-nodes", "Id": "AIPA"}}


def profile(*roles: str) -> dict[str, Any]:
    described = {"Path": "/", "CreateDate": 0, "Arn": "arn:aws:iam::111122223333:role/gpu-nodes"}
    return {
        "InstanceProfile": {
            **described,
            "InstanceProfileName": "gpu-nodes",
            "InstanceProfileId": "AIPAEXAMPLEEXAMPLE",
            "Roles": [{**described, "RoleName": "gpu-nodes", "RoleId": role} for role in roles],
        }
    }


def backed(*instances: str) -> list[dict[str, Any]]:
    return [{"InstanceId": one, **PROFILE} for one in instances]


def test_the_role_of_a_profile_is_read_once() -> None:
    roles = InstanceRoles()
    with stubbed("iam") as (clients, stub):
        stub.add_response("get_instance_profile", profile("AROAEXAMPLEEXAMPLE"), {"InstanceProfileName": "gpu-nodes"})
        assert roles.role_ids(clients, backed("i-1", "i-2")) == dict.fromkeys(["i-1", "i-2"], "AROAEXAMPLEEXAMPLE")
        assert roles.role_ids(clients, backed("i-3")) == {"i-3": "AROAEXAMPLEEXAMPLE"}


def test_an_instance_without_a_profile_and_a_profile_without_a_role_have_no_role_id() -> None:
    with stubbed("iam") as (clients, stub):
        stub.add_response("get_instance_profile", profile())
        assert InstanceRoles().role_ids(clients, [{"InstanceId": "i-0"}, *backed("i-1")]) == {}


def test_a_missing_permission_is_logged_once_and_tried_again_at_the_next_sync(caplog: pytest.LogCaptureFixture) -> None:
    roles = InstanceRoles()
    with stubbed("iam") as (clients, stub):
        stub.add_client_error("get_instance_profile", "AccessDenied", http_status_code=403)
        stub.add_response("get_instance_profile", profile("AROAEXAMPLEEXAMPLE"))
        assert roles.role_ids(clients, backed("i-1", "i-2", "i-3")) == {}
        assert caplog.text.count("node_role_unknown") == 1
        assert roles.role_ids(clients, backed("i-1")) == {"i-1": "AROAEXAMPLEEXAMPLE"}
