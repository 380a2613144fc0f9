"""The Launcher port: the same tests for the fake and EC2 fleets, on moto with the missing parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.launch import FleetLauncher, LaunchTemplateProvider
from faultbridge.local.gaps import ec2, patching
from faultbridge.local.servers.fault_injection import FAULTS
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Launcher, LaunchRequest, Provider
from tests.contracts.aws import ON_MOTO, fresh
from tests.sim.fakes import FakeFleet, FakeLauncher, FakeProvider

IMAGE = "ami-12c6146b"  # one that moto always has
FIRST, SECOND = "p5.48xlarge", "p5e.48xlarge"
STACK = "a-stack"


@dataclass
class World:
    """A launcher, the provider of the same instances, and a function that uses up an instance type."""

    launcher: Launcher
    provider: Provider
    launch_request: LaunchRequest
    run_out_of: Callable[[str], None]


@pytest.fixture
def _moto_fleets_like_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for gap in (ec2.FLEET_LAUNCHES, ec2.CAPACITY):
        owner, last = patching.owner_of(gap.private_names[0])
        monkeypatch.setattr(owner, last, getattr(owner, last))
        gap.apply()
    yield
    FAULTS.reset()


@pytest.fixture(params=["fake", "fleet"])
def world(request: pytest.FixtureRequest) -> World:
    group = fresh("template")
    launch_request = LaunchRequest(
        ClusterConfig("train-a"), group, fresh("case"), fresh("token"), None, (FIRST, SECOND)
    )
    if request.param == "fake":
        fleet = FakeFleet(launch_delay=timedelta(0))
        fleet.templates.add(group)
        launcher = FakeLauncher(fleet)
        return World(launcher, FakeProvider(fleet), launch_request, launcher.types_without_capacity.add)
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    request.getfixturevalue("_moto_fleets_like_aws")
    clients: Clients = request.getfixturevalue("clients")
    data = {"ImageId": IMAGE, "InstanceType": "p4d.24xlarge"}
    clients.ec2.create_launch_template(LaunchTemplateName=group, LaunchTemplateData=data)  # type: ignore[arg-type]  # a plain type name
    provider = LaunchTemplateProvider(clients)

    def run_out_of(instance_type: str) -> None:
        FAULTS.set_capacity(instance_type, "", available=False)

    return World(FleetLauncher(clients, STACK), provider, launch_request, run_out_of)


def live_ids(world: World, **others: str) -> list[str]:
    return [one.instance_id for one in world.launcher.launched(replace(world.launch_request, **others))]


class TestLauncher:
    def test_before_a_launch_there_is_no_instance(self, world: World) -> None:
        assert world.launcher.launched(world.launch_request) == ()

    def test_a_launched_instance_has_the_first_type_and_is_found_by_its_case(self, world: World) -> None:
        assert world.launcher.launch(world.launch_request).ok
        (found,) = world.launcher.launched(world.launch_request)
        assert (found.instance_type, found.running) == (FIRST, True)
        assert found.private_dns

    def test_a_second_call_with_the_same_token_launches_nothing(self, world: World) -> None:
        first, second = world.launcher.launch(world.launch_request), world.launcher.launch(world.launch_request)
        assert (first.ok, second.ok) == (True, True)
        assert first.operation == second.operation
        assert len(live_ids(world)) == 1

    def test_another_token_launches_another(self, world: World) -> None:
        world.launcher.launch(world.launch_request)
        world.launcher.launch(replace(world.launch_request, token="another"))
        assert len(live_ids(world)) == 2

    def test_instances_of_another_case_are_not_listed(self, world: World) -> None:
        world.launcher.launch(world.launch_request)
        assert live_ids(world, case="another") == []

    def test_all_instances_launched_in_a_cluster_are_listed_with_their_cases(self, world: World) -> None:
        here = replace(world.launch_request, cluster=ClusterConfig(fresh("cluster")))
        for case in ("c-1", "c-2"):
            assert world.launcher.launch(replace(here, case=case, token=fresh("token"))).ok
        first, second = sorted(world.launcher.launched_in(here.cluster), key=lambda one: str(one.case))
        assert (first.case, second.case) == ("c-1", "c-2")
        world.launcher.terminate(first.instance_id)
        assert world.launcher.launched_in(here.cluster) == (second,)

    def test_the_one_that_is_to_be_replaced_is_not_its_own_successor(self, world: World) -> None:
        world.launcher.launch(world.launch_request)
        (first,) = live_ids(world)
        assert live_ids(world, instead_of=first) == []

    def test_the_second_type_is_launched_when_the_first_has_no_capacity(self, world: World) -> None:
        world.run_out_of(FIRST)
        assert world.launcher.launch(world.launch_request).ok
        (found,) = world.launcher.launched(world.launch_request)
        assert found.instance_type == SECOND

    def test_without_capacity_for_any_type_nothing_is_launched_and_each_type_is_named(self, world: World) -> None:
        for one in (FIRST, SECOND):
            world.run_out_of(one)
        answer = world.launcher.launch(world.launch_request)
        assert answer.failure is ProviderFailure.CAPACITY
        assert FIRST in answer.reason
        assert SECOND in answer.reason
        assert live_ids(world) == []

    def test_a_spare_is_listed_for_its_case_before_and_after_it_is_assigned(self, world: World) -> None:
        world.launcher.launch(world.launch_request)
        (spare,) = live_ids(world)
        assert live_ids(world, case="c-1", spare=spare) == [spare]
        assert world.launcher.assign(spare, "c-1").ok
        assert world.launcher.assign(spare, "c-1").ok
        assert live_ids(world, case="c-1") == [spare]
        assert live_ids(world) == []

    def test_a_terminated_instance_is_gone_and_a_second_termination_is_harmless(self, world: World) -> None:
        world.launcher.launch(world.launch_request)
        (spare,) = live_ids(world)
        assert world.launcher.terminate(spare).ok
        assert world.launcher.terminate(spare).ok
        assert live_ids(world) == []

    def test_a_terminated_successor_is_not_listed_and_its_token_is_a_conflict(self, world: World) -> None:
        world.launcher.launch(world.launch_request)
        (terminated,) = live_ids(world)
        assert world.provider.replace(terminated, "token").ok
        assert live_ids(world) == []
        assert world.launcher.launch(world.launch_request).failure is ProviderFailure.CONFLICT
        assert live_ids(world) == []
