"""The event plane through boto3: MiniStack with the patches of `gaps` and a deployed template."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import uuid4

import pytest

from tests.local.stack import PrivateStack
from tests.waiting import eventually

pytestmark = pytest.mark.embedded

EMULATOR_WAIT = 0.05
"""How long in seconds the emulator without its patch waits for the lines of a call that prints none."""


def send(stack: PrivateStack, bodies: list[str]) -> None:
    sqs, url = stack.client("sqs"), stack.outputs["QueueUrl"]
    for start in range(0, len(bodies), 10):
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[start : start + 10])]
        assert not sqs.send_message_batch(QueueUrl=url, Entries=entries).get("Failed")


def item(stack: PrivateStack, key: str) -> dict[str, Any] | None:
    answer = stack.client("dynamodb").get_item(TableName=stack.outputs["TableName"], Key={"pk": {"S": key}})
    return answer.get("Item")


def received(stack: PrivateStack, body: str) -> dict[str, Any]:
    return eventually(lambda: item(stack, f"message/{body}"))


def invoke(stack: PrivateStack, **request: str) -> dict[str, Any]:
    answer = stack.client("lambda").invoke(FunctionName=stack.outputs["WorkerName"], Payload=json.dumps(request))
    result: dict[str, Any] = json.loads(answer["Payload"].read())
    return result


def names(count: int) -> list[str]:
    run = uuid4().hex[:8]
    return [f"{run}-{n}" for n in range(count)]


def test_a_batch_is_as_large_as_the_event_source_mapping_allows(tiny_stack: PrivateStack) -> None:
    bodies = names(300)
    send(tiny_stack, bodies)
    sizes = [int(received(tiny_stack, body)["batch_size"]["N"]) for body in bodies]
    assert 10 < max(sizes) <= 100


def test_a_record_is_delivered_within_a_second(tiny_stack: PrivateStack) -> None:
    for body in names(3):
        send(tiny_stack, [body])
        eventually(lambda body=body: item(tiny_stack, f"message/{body}"), seconds=1.0)  # type: ignore[misc] - mypy knows no default in a lambda


def test_a_failed_record_of_a_stream_is_delivered_again(tiny_stack: PrivateStack) -> None:
    body = f"fails-once-{uuid4().hex[:8]}"
    send(tiny_stack, [body])

    def read_twice() -> bool:
        found = item(tiny_stack, f"read/message/{body}")
        return found is not None and int(found["read_count"]["N"]) >= 2

    eventually(read_twice)


def test_an_error_has_the_name_of_its_class(tiny_stack: PrivateStack) -> None:
    assert invoke(tiny_stack, do="raise")["errorType"] == "NoSuchOrderError"


def test_a_function_can_import_boto3_but_no_other_installed_package(tiny_stack: PrivateStack) -> None:
    assert invoke(tiny_stack, do="import", module="boto3") == {"error": None}
    assert invoke(tiny_stack, do="import", module="dateutil") == {"error": None}
    for module in ("moto", "ministack", "pydantic", "faultbridge", "yaml"):
        assert invoke(tiny_stack, do="import", module=module) == {"error": "ModuleNotFoundError"}, module


def test_a_function_gets_both_endpoints_and_no_variable_of_the_user(
    tiny_stack: PrivateStack,
) -> None:
    seen = set(invoke(tiny_stack, do="describe")["environment"])
    assert {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_AUTO_SCALING", "AWS_ENDPOINT_URL_SSM"} <= seen
    assert not seen & {"VIRTUAL_ENV", "AWS_PROFILE", "HTTP_PROXY", "PYTEST_CURRENT_TEST"}


def log_lines(stack: PrivateStack) -> list[str]:
    logs = stack.client("logs")
    group = f"/aws/lambda/{stack.outputs['WorkerName']}"
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
    return [event["message"] for page in pages for event in page["events"]]


def test_every_line_of_a_call_is_logged(tiny_stack: PrivateStack) -> None:
    runs = names(30)
    for run in runs:
        invoke(tiny_stack, do="print", text=f"{run} first\n{run} second\n{run} without an end of line")
    lines = log_lines(tiny_stack)
    expected = [f"{run} {which}" for run in runs for which in ("first", "second", "without an end of line")]
    assert [line for line in lines if line.split()[0] in runs] == expected


def test_a_handler_that_prints_nothing_does_not_wait(tiny_stack: PrivateStack) -> None:
    def seconds() -> float:
        started = time.monotonic()
        invoke(tiny_stack, do="describe")
        return time.monotonic() - started

    assert any(seconds() < EMULATOR_WAIT for _ in range(200))


def test_a_new_variable_reaches_running_functions(tiny_stack: PrivateStack) -> None:
    assert "LATE" not in invoke(tiny_stack, do="describe")["environment"]
    tiny_stack.set_variable("LATE", "1")
    assert {"LATE", "TABLE"} <= set(invoke(tiny_stack, do="describe")["environment"])


def test_settings_that_cloudformation_drops_are_restored(tiny_stack: PrivateStack) -> None:
    queue = tiny_stack.client("sqs").get_queue_attributes(
        QueueUrl=tiny_stack.outputs["QueueUrl"], AttributeNames=["RedrivePolicy"]
    )
    assert json.loads(queue["Attributes"]["RedrivePolicy"])["maxReceiveCount"] == 3
    table = tiny_stack.client("dynamodb").describe_time_to_live(TableName=tiny_stack.outputs["TableName"])
    assert table["TimeToLiveDescription"] == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
    sns = tiny_stack.client("sns")
    (subscription,) = sns.list_subscriptions()["Subscriptions"]
    found = sns.get_subscription_attributes(SubscriptionArn=subscription["SubscriptionArn"])["Attributes"]
    assert "deadLetterTargetArn" in json.loads(found["RedrivePolicy"])


def test_records_of_a_killed_worker_are_delivered_to_another_worker(tiny_stack: PrivateStack) -> None:
    killed = invoke(tiny_stack, do="describe")["pid"]
    assert tiny_stack.kill_worker("Worker") == killed
    bodies = names(5)
    send(tiny_stack, bodies)
    workers = {int(received(tiny_stack, body)["worker"]["N"]) for body in bodies}
    assert killed not in workers
