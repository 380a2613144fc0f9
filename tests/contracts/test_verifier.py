"""The Verifier port: the same tests for the fake and DCGM diagnostics over SSM."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.compute.dcgm_verifier import SsmDcgmVerifier
from faultbridge.errors import Rejected
from faultbridge.ports import Verdict, Verifier
from faultbridge.simulation.fakes import FakeVerifier
from tests.contracts.aws import ON_MOTO
from tests.contracts.test_provider import group_of


def no_report(_: bytes) -> tuple[()]:
    raise Rejected("no_report")


@pytest.fixture(params=["fake", "ssm"])
def verifier(request: pytest.FixtureRequest, clients: Clients) -> Verifier:
    if request.param == "fake":
        return FakeVerifier()
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    return SsmDcgmVerifier(clients, level=3, timeout_seconds=60, read_report=no_report)


@pytest.fixture
def instance(clients: Clients) -> str:
    return group_of(clients)[1][0] if ON_MOTO else "i-1"


class TestVerifier:
    def test_the_same_token_never_starts_a_second_verification(self, verifier: Verifier, instance: str) -> None:
        first = verifier.start(instance, "c-1/1/verify")
        assert verifier.start(instance, "c-1/1/verify") == first
        assert verifier.start(instance, "c-1/2/verify") != first

    def test_two_attempts_of_one_case_are_two_verifications(self, verifier: Verifier, instance: str) -> None:
        case = f"c-{'a' * 26}"
        started = {verifier.start(instance, f"{case}-{attempt}-{tries}") for attempt in (1, 2, 12) for tries in (0, 3)}
        assert len(started) == 6

    def test_a_verification_that_was_never_started_is_unknown_and_not_failed(
        self, verifier: Verifier, instance: str
    ) -> None:
        found = verifier.status(instance, "00000000-0000-0000-0000-000000000000")
        assert found.verdict is Verdict.UNKNOWN
        assert found.findings
