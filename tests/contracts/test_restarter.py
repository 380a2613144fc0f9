"""The Restarter port: the fake and SSM Run Command alike."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.restarters.ssm import SsmRestarter
from faultbridge.domain.cases import RepairAction
from faultbridge.ports import Restarter, RestartState
from faultbridge.simulation.fakes import FakeFleet, FakeRestarter
from tests.contracts.aws import ON_MOTO
from tests.contracts.test_provider import group_of

TOKEN = "c-abc-1"
IN_PLACE = [RepairAction.RESET_GPU, RepairAction.REBOOT_NODE]


@pytest.fixture(params=["fake", "ssm"])
def world(request: pytest.FixtureRequest, clients: Clients) -> tuple[Restarter, str]:
    if request.param == "fake":
        fleet = FakeFleet()
        return FakeRestarter(fleet, duration=timedelta(0)), fleet.launch("gpu")
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    return SsmRestarter(clients), group_of(clients)[1][0]


@pytest.mark.parametrize("repair_action", IN_PLACE)
class TestRestarter:
    def test_what_was_never_asked_for_is_absent(
        self, world: tuple[Restarter, str], repair_action: RepairAction
    ) -> None:
        restarter, instance = world
        assert restarter.look(repair_action, instance, TOKEN).state is RestartState.ABSENT

    def test_what_was_begun_is_found_by_its_token_alone(
        self, world: tuple[Restarter, str], repair_action: RepairAction
    ) -> None:
        restarter, instance = world
        begun = restarter.restart(repair_action, instance, TOKEN)
        assert begun.ok
        found = restarter.look(repair_action, instance, TOKEN)
        assert (found.state, found.operation) == (RestartState.DONE, begun.operation)
        assert restarter.look(repair_action, instance, "c-abc-2").state is RestartState.ABSENT

    def test_the_same_token_never_begins_a_second_one(
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
        (other,) = {*IN_PLACE} - {repair_action}
        first = restarter.restart(repair_action, instance, TOKEN)
        assert restarter.look(other, instance, TOKEN).state is RestartState.ABSENT
        assert restarter.restart(other, instance, TOKEN).operation != first.operation
