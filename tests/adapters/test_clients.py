"""How clients are made."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from moto import mock_aws

from faultbridge.adapters.clients import Clients
from faultbridge.domain.clusters import ProviderRole
from tests.adapters.stubs import ENVIRONMENT


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def test_no_client_is_made_before_it_is_used() -> None:
    with mock.patch("faultbridge.adapters.clients.Session") as session:
        clients = Clients()
        session.assert_not_called()
        assert clients.sqs is clients.sqs
        assert session.return_value.client.call_count == 1


def test_every_client_has_time_limits_and_a_bounded_number_of_attempts() -> None:
    clients = Clients()
    for client in (clients.dynamodb, clients.events, clients.sqs, clients.s3, clients.sns, clients.ssm, clients.ec2):
        config: Any = client.meta.config
        assert config.connect_timeout <= 5
        assert config.read_timeout <= 20
        assert config.retries == {"mode": "standard", "total_max_attempts": 4}


def test_the_client_that_destroys_never_repeats_a_call() -> None:
    config: Any = Clients().autoscaling_once.meta.config
    assert config.retries == {"mode": "standard", "total_max_attempts": 1}


def test_an_endpoint_leads_everywhere_but_where_a_service_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:5000")
    monkeypatch.setenv("AWS_ENDPOINT_URL_AUTO_SCALING", "http://127.0.0.1:5001")
    clients = Clients(endpoint_url="http://127.0.0.1:4566")
    assert clients.dynamodb.meta.endpoint_url == "http://127.0.0.1:4566"
    assert clients.ec2.meta.endpoint_url == "http://127.0.0.1:5000"
    assert clients.autoscaling.meta.endpoint_url == "http://127.0.0.1:5001"


def test_the_endpoint_of_the_environment_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", "http://127.0.0.1:5000")
    clients = Clients()
    assert clients.events.meta.endpoint_url == "http://127.0.0.1:4566"
    assert clients.ssm.meta.endpoint_url == "http://127.0.0.1:5000"
    config: Any = clients.s3.meta.config
    assert config.s3 == {"addressing_style": "path"}


@mock_aws
def test_an_observer_hears_of_every_call() -> None:
    heard: list[tuple[str, str]] = []
    clients = Clients(observe=lambda service, operation: heard.append((service, operation)))
    clients.sqs.create_queue(QueueName="q")
    clients.s3.list_buckets()
    assert heard == [("sqs", "CreateQueue"), ("s3", "ListBuckets")]


def test_another_account_is_reached_as_its_role_under_its_external_id() -> None:
    role = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "shared-by-both")
    with mock_aws():
        own = Clients()
        asked: list[Any] = []
        own.sts.meta.events.register("before-parameter-build.sts.AssumeRole", lambda params, **_: asked.append(params))
        others = own.assuming(role)
        assert asked == []
        assert others.sts.get_caller_identity()["Arn"].startswith("arn:aws:sts::222233334444:assumed-role/faultbridge/")
        assert own.sts.get_caller_identity()["Account"] == "123456789012"
    assert asked == [{"RoleArn": role.arn, "ExternalId": "shared-by-both", "RoleSessionName": "faultbridge"}]
    assert own.assuming(role) is others
