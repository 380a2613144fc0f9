"""Calls on instances use the role of their account; all other calls stay in this account."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.ports import AwsPorts
from faultbridge.domain.cluster.config import ClusterConfig, ProviderRole
from faultbridge.settings import Settings
from tests.adapters.stubs import ENVIRONMENT

ROLE = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")


def test_calls_on_instances_of_another_account_use_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    clients = Clients()
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t"}), clients)
    config = ClusterConfig("train-a", provider_role=ROLE)
    other = ports.for_cluster(config)
    assert ports.for_cluster(config) is other
    assert (ports.compute, other.compute) == (clients, clients.for_role(ROLE))
    assert other.clients is clients
