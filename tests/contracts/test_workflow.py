"""The Workflow port: the fake and Step Functions alike."""

from __future__ import annotations

import json

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.step_functions import StepFunctionsWorkflow
from faultbridge.ports import ExecutionStatus, Workflow
from faultbridge.simulation.fakes import FakeWorkflow
from tests.contracts.aws import ON_MOTO, fresh

WAITING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}


@pytest.fixture(params=["fake", "stepfunctions"])
def workflow(request: pytest.FixtureRequest, clients: Clients) -> Workflow:
    if request.param == "fake":
        return FakeWorkflow()
    machine = clients.stepfunctions.create_state_machine(
        name=fresh("machine"), definition=json.dumps(WAITING), roleArn="arn:aws:iam::123456789012:role/any"
    )
    return StepFunctionsWorkflow(clients, machine["stateMachineArn"])


class TestWorkflow:
    def test_what_was_started_runs(self, workflow: Workflow) -> None:
        workflow.start("c-abc-1", {"v": 1, "case": "c-abc"})
        assert workflow.status("c-abc-1") is ExecutionStatus.RUNNING

    def test_starting_it_again_counts_as_started(self, workflow: Workflow) -> None:
        workflow.start("c-abc-1", {"v": 1})
        workflow.start("c-abc-1", {"v": 1})
        assert workflow.status("c-abc-1") is ExecutionStatus.RUNNING

    def test_a_name_that_never_ran_is_missing(self, workflow: Workflow) -> None:
        assert workflow.status("c-none-1") is ExecutionStatus.MISSING

    @pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 81, "ä"])
    def test_a_name_that_the_service_would_not_take_is_a_mistake(self, workflow: Workflow, name: str) -> None:
        with pytest.raises(ValueError, match="name"):
            workflow.start(name, {})

    def test_a_token_that_nobody_waits_with_wakes_nobody(self, workflow: Workflow) -> None:
        if ON_MOTO and isinstance(workflow, StepFunctionsWorkflow):
            pytest.skip("moto knows no task tokens; tests/adapters shows the answers of the service")
        assert workflow.resume("nobody's token", {"a": 1}) is False
