"""The Launcher port: the fake and EC2 fleets alike, the latter on moto with what its fleets lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.launchers.ec2_fleet import FleetLauncher
from faultbridge.adapters.providers.ec2_launch_template import LaunchTemplateProvider
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.local.compute_script import SCRIPT
from faultbridge.local.gaps import capacity, fleet_launches, names
from faultbridge.ports import Launcher, Provider, ProviderFailure, Vacancy
from faultbridge.simulation.fakes import FakeFleet, FakeLauncher, FakeProvider
from tests.contracts.aws import ON_MOTO, fresh

IMAGE = "ami-12c6146b"  # one that moto always has
FIRST, SECOND = "p5.48xlarge", "p5e.48xlarge"
STACK = "a-stack"


@dataclass
class World:
    """A launcher, the provider of the same machines, and how a type runs out."""

    launcher: Launcher
    provider: Provider
    vacancy: Vacancy
    run_out_of: Callable[[str], None]


@pytest.fixture
def _fleets_as_on_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for gap, name in ((fleet_launches, fleet_launches.CREATE), (capacity, capacity.RUN)):
        owner, last = names._owner(name)
        monkeypatch.setattr(owner, last, getattr(owner, last))
        gap.apply()
    yield
    SCRIPT.reset()


@pytest.fixture(params=["fake", "fleet"])
def world(request: pytest.FixtureRequest) -> World:
    group = fresh("template")
    vacancy = Vacancy(ClusterConfig("train-a"), group, fresh("case"), fresh("token"), None, (FIRST, SECOND))
    if request.param == "fake":
        fleet = FakeFleet(launch_delay=timedelta(0))
        fleet.templates.add(group)
        launcher = FakeLauncher(fleet)
        return World(launcher, FakeProvider(fleet), vacancy, launcher.dry.add)
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    request.getfixturevalue("_fleets_as_on_aws")
    clients: Clients = request.getfixturevalue("clients")
    data = {"ImageId": IMAGE, "InstanceType": "p4d.24xlarge"}
    clients.ec2.create_launch_template(LaunchTemplateName=group, LaunchTemplateData=data)  # type: ignore[arg-type]  # a plain type name
    provider = LaunchTemplateProvider(clients)

    def run_out_of(instance_type: str) -> None:
        SCRIPT.set_capacity(instance_type, "", available=False)

    return World(FleetLauncher(clients, STACK), provider, vacancy, run_out_of)


def living(world: World, **others: str) -> list[str]:
    return [one.instance_id for one in world.launcher.launched(replace(world.vacancy, **others))]


class TestLauncher:
    def test_nothing_is_there_before_it_was_launched(self, world: World) -> None:
        assert world.launcher.launched(world.vacancy) == ()

    def test_what_was_launched_is_of_the_first_type_and_found_by_its_case(self, world: World) -> None:
        assert world.launcher.launch(world.vacancy).ok
        (found,) = world.launcher.launched(world.vacancy)
        assert (found.instance_type, found.running) == (FIRST, True)
        assert found.private_dns

    def test_a_second_call_with_the_same_token_launches_nothing(self, world: World) -> None:
        first, second = world.launcher.launch(world.vacancy), world.launcher.launch(world.vacancy)
        assert (first.ok, second.ok) == (True, True)
        assert first.operation == second.operation
        assert len(living(world)) == 1

    def test_another_token_launches_another(self, world: World) -> None:
        world.launcher.launch(world.vacancy)
        world.launcher.launch(replace(world.vacancy, token="another"))
        assert len(living(world)) == 2

    def test_what_was_launched_for_another_case_is_not_told(self, world: World) -> None:
        world.launcher.launch(world.vacancy)
        assert living(world, case="another") == []

    def test_the_one_that_is_to_be_replaced_is_not_its_own_successor(self, world: World) -> None:
        world.launcher.launch(world.vacancy)
        (first,) = living(world)
        assert living(world, instead_of=first) == []

    def test_the_second_type_is_launched_where_the_first_is_not_to_be_had(self, world: World) -> None:
        world.run_out_of(FIRST)
        assert world.launcher.launch(world.vacancy).ok
        (found,) = world.launcher.launched(world.vacancy)
        assert found.instance_type == SECOND

    def test_without_capacity_for_any_type_nothing_is_launched_and_each_type_is_named(self, world: World) -> None:
        for one in (FIRST, SECOND):
            world.run_out_of(one)
        answer = world.launcher.launch(world.vacancy)
        assert answer.failure is ProviderFailure.CAPACITY
        assert FIRST in answer.reason
        assert SECOND in answer.reason
        assert living(world) == []

    def test_a_machine_that_a_case_took_is_told_of_to_it_before_and_after_it_is_marked(self, world: World) -> None:
        world.launcher.launch(world.vacancy)
        (spare,) = living(world)
        assert living(world, case="c-1", spare=spare) == [spare]
        assert world.launcher.mark(spare, "c-1").ok
        assert world.launcher.mark(spare, "c-1").ok
        assert living(world, case="c-1") == [spare]
        assert living(world) == []

    def test_a_machine_that_is_ended_is_gone_and_ending_it_again_is_harmless(self, world: World) -> None:
        world.launcher.launch(world.vacancy)
        (spare,) = living(world)
        assert world.launcher.end(spare).ok
        assert world.launcher.end(spare).ok
        assert living(world) == []

    def test_a_successor_that_ended_is_not_told_and_its_token_is_used_up(self, world: World) -> None:
        world.launcher.launch(world.vacancy)
        (ended,) = living(world)
        assert world.provider.replace(ended, "token").ok
        assert living(world) == []
        assert world.launcher.launch(world.vacancy).failure is ProviderFailure.CONFLICT
        assert living(world) == []
