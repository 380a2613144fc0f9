"""The Verifier port: the same tests for the fake, DCGM diagnostics over SSM and HyperPod's checks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.dcgm_verifier import SsmDcgmVerifier
from faultbridge.adapters.ec2.pair_verifier import Ec2Peers, PeerLeases, SsmPairVerifier
from faultbridge.adapters.ec2.request_log import RequestLog
from faultbridge.adapters.hyperpod.provider import HyperPodVerifier
from faultbridge.decode.verification import PeerChecks
from faultbridge.model.errors import Rejected
from faultbridge.record.ports.compute import Verdict, Verifier
from faultbridge.repair.registry.verification import VerificationPeers
from tests.contracts.aws import ON_MOTO
from tests.contracts.provider import group_of
from tests.hyperpod import api, hyperpod
from tests.sim.fakes import FakeTable, FakeVerifier, ManualClock


def no_report(_: bytes) -> tuple[()]:
    raise Rejected("no_report")


@pytest.fixture(params=["fake", "ssm", "ssm-pair", "hyperpod"])
def world(request: pytest.FixtureRequest, clients: Clients) -> Iterator[tuple[Verifier, str]]:
    if request.param == "fake":
        yield FakeVerifier(), "i-1"
    elif request.param == "hyperpod":
        clock = ManualClock()
        with hyperpod(clock) as (sagemaker, cluster):
            yield (
                HyperPodVerifier(api(sagemaker), RequestLog(FakeTable(clock), clock)),
                cluster.current()[0].instance_id,
            )
    elif not ON_MOTO:
        pytest.skip("only moto has the compute services")
    else:
        deep = SsmDcgmVerifier(clients, level=3, timeout_seconds=60, read_report=no_report)
        yield (deep if request.param == "ssm" else with_peers(clients, deep)), group_of(clients)[1][0]


def with_peers(clients: Clients, deep: Verifier) -> Verifier:
    clock = ManualClock()
    table = FakeTable(clock)
    peers = Ec2Peers(clients, VerificationPeers(table, clock), "faultbridge")
    leases = PeerLeases(table, clock)
    return SsmPairVerifier(clients, deep=deep, level=3, tests=PeerChecks(), peers=peers, leases=leases)


@pytest.fixture
def verifier(world: tuple[Verifier, str]) -> Verifier:
    return world[0]


@pytest.fixture
def instance(world: tuple[Verifier, str]) -> str:
    return world[1]


class TestVerifier:
    def test_the_same_token_never_starts_a_second_verification(self, verifier: Verifier, instance: str) -> None:
        first = verifier.start(instance, "c-1/1/verify")
        assert verifier.start(instance, "c-1/1/verify") == first
        assert verifier.start(instance, "c-1/2/verify") != first

    def test_two_attempts_of_one_case_are_two_verifications(self, verifier: Verifier, instance: str) -> None:
        case = f"c-{'a' * 26}"
        started = {verifier.start(instance, f"{case}-{attempt}-{tries}") for attempt in (1, 2, 12) for tries in (0, 3)}
        assert len(started) == 6

    def test_a_look_at_the_processes_is_no_verification_and_answers_for_each_token(
        self, verifier: Verifier, instance: str
    ) -> None:
        first = verifier.processes(instance, "c-1-1").verdict
        assert first in {Verdict.PENDING, Verdict.UNKNOWN}
        assert verifier.processes(instance, "c-1-1").verdict in {Verdict.PASSED, Verdict.UNKNOWN}
        assert verifier.processes(instance, "c-1-2").verdict is first

    def test_a_verification_that_was_never_started_is_unknown_and_not_failed(
        self, verifier: Verifier, instance: str
    ) -> None:
        found = verifier.status(instance, "00000000-0000-0000-0000-000000000000")
        assert found.verdict is Verdict.UNKNOWN
        assert found.findings
