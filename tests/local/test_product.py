"""The product's own template on the embedded stack: it deploys completely, and every function starts."""

from __future__ import annotations

import pytest

from tests.local.stack import PrivateStack

pytestmark = pytest.mark.embedded


def test_every_function_has_a_worker_before_its_first_record(embedded_stack: PrivateStack) -> None:
    functions = embedded_stack.client("lambda").list_functions()["Functions"]
    names = {function["FunctionName"] for function in functions}
    assert {"faultbridge-ingest", "faultbridge-publish", "faultbridge-react", "faultbridge-sweep"} <= names
    # The sweep may be between two workers at this moment: it runs all the time.
    assert set(embedded_stack.workers()) >= names - {"faultbridge-sweep"}


def test_every_dead_letter_queue_is_deployed(embedded_stack: PrivateStack) -> None:
    queues = {queue.logical_id: queue for queue in embedded_stack.status().queues}
    assert {name for name, queue in queues.items() if queue.dead_letters} == {
        "RawRecordsDeadLetters",
        "CloudEventsDeadLetters",
        "StreamDeadLetters",
        "RuleDeadLetters",
    }
    assert not queues["RawRecordsQueue"].dead_letters


def test_the_outputs_name_the_deployed_resources(embedded_stack: PrivateStack) -> None:
    wanted = {"TableName", "RawRecordsQueueUrl", "RawBucketName", "EventBusName", "StateMachineArn", "UrgentTopicArn"}
    assert wanted <= set(embedded_stack.outputs)
    embedded_stack.client("dynamodb").describe_table(TableName=embedded_stack.outputs["TableName"])
    embedded_stack.client("stepfunctions").describe_state_machine(
        stateMachineArn=embedded_stack.outputs["StateMachineArn"]
    )


def test_the_table_has_no_deletion_protection(embedded_stack: PrivateStack) -> None:
    table = embedded_stack.client("dynamodb").describe_table(TableName=embedded_stack.outputs["TableName"])["Table"]
    assert table["DeletionProtectionEnabled"] is False
