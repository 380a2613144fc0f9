"""The Restarter port: the same tests for the fake and SSM Run Command."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.compute.ssm_restart import SsmRestarter
from faultbridge.domain.cases import RepairAction
from faultbridge.ports import Restarter, RestartState
from faultbridge.simulation.fakes import FakeFleet, FakeRestarter
from tests.contracts.aws import ON_MOTO
from tests.contracts.test_provider import group_of

TOKEN = "c-abc-1"
RESTARTS = [RepairAction.RESET_GPU, RepairAction.REBOOT_NODE]


@pytest.fixture(params=["fake", "ssm"])
def world(request: pytest.FixtureRequest, clients: Clients) -> tuple[Restarter, str]:
    if request.param == "fake":
        fleet = FakeFleet()
        return FakeRestarter(fleet, duration=timedelta(0)), fleet.launch("gpu")
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    return SsmRestarter(clients), group_of(clients)[1][0]


@pytest.mark.parametrize("repair_action", RESTARTS)
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

    def test_two_repair_actions_of_one_token_are_two_restarts(
        self, world: tuple[Restarter, str], repair_action: RepairAction
    ) -> None:
        restarter, instance = world
        (other,) = {*RESTARTS} - {repair_action}
        first = restarter.restart(repair_action, instance, TOKEN)
        assert restarter.status(other, instance, TOKEN).state is RestartState.ABSENT
        assert restarter.restart(other, instance, TOKEN).operation != first.operation
