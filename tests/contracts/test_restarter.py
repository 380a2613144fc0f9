"""The Restarter port: the same tests for the fake, SSM Run Command and HyperPod."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest import mock

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.request_log import SETTLE, RequestLog
from faultbridge.adapters.ec2.restart import SsmRestarter
from faultbridge.adapters.hyperpod.provider import HyperPodRestarter
from faultbridge.model.enums import RepairAction
from faultbridge.record.ports.compute import Restarter, RestartState
from tests.contracts.aws import ON_MOTO
from tests.contracts.provider import group_of
from tests.hyperpod import AT_ONCE, api, hyperpod
from tests.sim.fakes import FakeFleet, FakeRestarter, FakeTable, ManualClock

TOKEN = "c-abc-1"
RESTARTS = [RepairAction.RESET_GPU, RepairAction.REBOOT_NODE]
BOTH = [(name, repair_action) for name in ("fake", "ssm") for repair_action in RESTARTS]
HYPERPOD = ("hyperpod", RepairAction.REBOOT_NODE)  # it has no call that resets GPUs


@pytest.fixture
def world(request: pytest.FixtureRequest, clients: Clients) -> Iterator[tuple[Restarter, str]]:
    if request.param == "fake":
        fleet = FakeFleet()
        yield FakeRestarter(fleet, duration=timedelta(0)), fleet.launch("gpu")
    elif request.param == "hyperpod":
        with rebooting_at_once() as made:
            yield made
    elif not ON_MOTO:
        pytest.skip("only moto has the compute services")
    else:
        yield SsmRestarter(clients), group_of(clients)[1][0]


@contextmanager
def rebooting_at_once() -> Iterator[tuple[Restarter, str]]:
    """A node whose reboot ends within the call; reading its status takes as long as an accepted reboot may."""
    clock = ManualClock()
    with hyperpod(clock, durations=AT_ONCE) as (clients, cluster):
        restarter = HyperPodRestarter(api(clients), RequestLog(FakeTable(clock), clock))
        status = restarter.status
        with mock.patch.object(
            HyperPodRestarter, "status", lambda _, *given: (clock.advance(SETTLE), status(*given))[1]
        ):
            yield restarter, cluster.current()[0].instance_id


@pytest.mark.parametrize(("world", "repair_action"), [*BOTH, HYPERPOD], indirect=["world"])
class TestRestarter:
    def test_a_restart_that_was_never_started_is_absent(
        self, world: tuple[Restarter, str], repair_action: RepairAction
    ) -> None:
        restarter, instance = world
        assert restarter.status(repair_action, instance, TOKEN).state is RestartState.ABSENT

    def test_a_restart_is_found_by_its_token_alone(
        self, world: tuple[Restarter, str], repair_action: RepairAction
    ) -> None:
        restarter, instance = world
        started = restarter.restart(repair_action, instance, TOKEN)
        assert started.ok
        found = restarter.status(repair_action, instance, TOKEN)
        assert (found.state, found.operation) == (RestartState.DONE, started.operation)
        assert restarter.status(repair_action, instance, "c-abc-2").state is RestartState.ABSENT

    def test_the_same_token_never_starts_a_second_restart(
        self, world: tuple[Restarter, str], repair_action: RepairAction
    ) -> None:
        restarter, instance = world
        first = restarter.restart(repair_action, instance, TOKEN)
        assert restarter.restart(repair_action, instance, TOKEN) == first
        assert restarter.restart(repair_action, instance, "c-abc-2").operation != first.operation


@pytest.mark.parametrize(("world", "repair_action"), BOTH, indirect=["world"])
class TestTwoRepairActions:
    def test_two_repair_actions_of_one_token_are_two_restarts(
        self, world: tuple[Restarter, str], repair_action: RepairAction
    ) -> None:
        restarter, instance = world
        (other,) = {*RESTARTS} - {repair_action}
        first = restarter.restart(repair_action, instance, TOKEN)
        assert restarter.status(other, instance, TOKEN).state is RestartState.ABSENT
        assert restarter.restart(other, instance, TOKEN).operation != first.operation
