"""The Orchestrator port: the fake and the orchestrator of a cluster that has none."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.adapters.orchestrators.none import NoOrchestrator
from faultbridge.ports import Orchestrator
from faultbridge.simulation.fakes import START, FakeOrchestrator

DEADLINE = START + timedelta(minutes=10)


@pytest.fixture(params=["none", "fake", "fake none"])
def orchestrator(request: pytest.FixtureRequest) -> Orchestrator:
    made: dict[str, Orchestrator] = {
        "none": NoOrchestrator(),
        "fake": FakeOrchestrator(),
        "fake none": FakeOrchestrator(applicable=False),
    }
    return made[request.param]


class TestOrchestrator:
    def test_every_verb_may_be_repeated(self, orchestrator: Orchestrator) -> None:
        for _ in range(2):
            assert orchestrator.cordon("node-1").ok
        for _ in range(2):
            assert orchestrator.drain("node-1", DEADLINE).ok
        for _ in range(2):
            assert orchestrator.uncordon("node-1").ok

    def test_one_that_does_not_apply_says_so_in_its_answer(self, orchestrator: Orchestrator) -> None:
        reasons = {orchestrator.cordon("n").reason, orchestrator.drain("n", DEADLINE).reason}
        assert all("not applicable" in reason for reason in reasons) is not orchestrator.applicable
