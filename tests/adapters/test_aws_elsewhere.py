"""What acts on machines goes to the account where they are; the record stays in ours."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws import AwsPorts
from faultbridge.adapters.clients import Clients
from faultbridge.domain.clusters import ProviderRole
from faultbridge.settings import Settings
from tests.adapters.stubs import ENVIRONMENT

ROLE = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")


def test_machines_of_another_account_are_reached_as_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    clients = Clients()
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t"}), clients)
    there = ports.elsewhere(ROLE)
    assert ports.elsewhere(ROLE) is there
    assert (ports.compute, there.compute) == (clients, clients.assuming(ROLE))
    assert there.clients is clients
