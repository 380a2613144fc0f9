"""The Workflow port: the same tests for the fake and Step Functions."""

from __future__ import annotations

import json

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.step_functions import StepFunctionsWorkflow
from faultbridge.record.ports.messaging import ExecutionStatus, Workflow
from tests.contracts.aws import ON_MOTO, fresh
from tests.sim.fakes import FakeWorkflow

WAITING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}


@pytest.fixture(params=["fake", "stepfunctions"])
def workflow(request: pytest.FixtureRequest, clients: Clients) -> Workflow:
    if request.param == "fake":
        return FakeWorkflow()
    state_machine = clients.stepfunctions.create_state_machine(
        name=fresh("machine"), definition=json.dumps(WAITING), roleArn="arn:aws:iam::123456789012:role/any"
    )
    return StepFunctionsWorkflow(clients, state_machine["stateMachineArn"])


class TestWorkflow:
    def test_a_started_execution_is_running(self, workflow: Workflow) -> None:
        workflow.start("c-abc-1", {"v": 1, "case": "c-abc"})
        assert workflow.status("c-abc-1") is ExecutionStatus.RUNNING

    def test_starting_an_existing_execution_succeeds(self, workflow: Workflow) -> None:
        workflow.start("c-abc-1", {"v": 1})
        workflow.start("c-abc-1", {"v": 1})
        assert workflow.status("c-abc-1") is ExecutionStatus.RUNNING

    def test_an_execution_that_was_never_started_is_missing(self, workflow: Workflow) -> None:
        assert workflow.status("c-none-1") is ExecutionStatus.MISSING

    @pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 81, "ä"])
    def test_a_name_that_the_service_does_not_allow_is_an_error(self, workflow: Workflow, name: str) -> None:
        with pytest.raises(ValueError, match="name"):
            workflow.start(name, {})

    def test_an_unknown_task_token_resumes_nothing(self, workflow: Workflow) -> None:
        if ON_MOTO and isinstance(workflow, StepFunctionsWorkflow):
            pytest.skip("moto has no task tokens; tests/adapters covers the responses of the service")
        assert workflow.resume("unknown token", {"a": 1}) is False
