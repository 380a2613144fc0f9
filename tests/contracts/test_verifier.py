"""The Verifier port: the fake and DCGM diagnostics over SSM alike."""

from __future__ import annotations

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.verifiers.ssm_dcgm import SsmDcgmVerifier
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
    def test_the_same_token_never_begins_a_second_one(self, verifier: Verifier, instance: str) -> None:
        first = verifier.begin(instance, "c-1/1/verify")
        assert verifier.begin(instance, "c-1/1/verify") == first
        assert verifier.begin(instance, "c-1/2/verify") != first

    def test_one_that_was_never_begun_is_unknown_and_not_failed(self, verifier: Verifier, instance: str) -> None:
        look = verifier.look(instance, "00000000-0000-0000-0000-000000000000")
        assert look.verdict is Verdict.UNKNOWN
        assert look.findings
