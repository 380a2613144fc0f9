"""Fixtures for the tests of the commands that install."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from faultbridge.cli.commands.install import connect
from faultbridge.cli.stack.session import Session
from tests.cli.desk import Desk
from tests.install.fakes import GROUP, STACK, FakeAccount, FakeEks
from tests.sim.fakes.inventory import FakeInventory


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Desk:
    return Desk(monkeypatch, capfdbinary)


@pytest.fixture
def account() -> FakeAccount:
    return FakeAccount()


@pytest.fixture
def aws(account: FakeAccount) -> SimpleNamespace:
    """The clients of the account and of EKS."""
    return SimpleNamespace(autoscaling=account, ec2=account, iam=account, sns=account, sqs=account, eks=FakeEks())


@pytest.fixture
def connected(aws: SimpleNamespace, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose stack is in this account; its inventory has two instances in the group."""
    monkeypatch.setattr(connect, "installation", lambda _session: STACK)
    monkeypatch.setattr(Session, "clients", property(lambda _session: aws))
    monkeypatch.setattr(Session, "place", property(lambda _session: "stack faultbridge"))
    desk.world.ports.inventories["ec2-auto-scaling"] = FakeInventory(desk.world.ports.fleet)
    for _ in range(2):
        desk.world.ports.fleet.launch(GROUP)
    return desk
