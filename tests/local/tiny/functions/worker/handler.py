"""Functions of the small test stack: one stores the messages of a queue, one reads the table's stream."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import boto3


class NoSuchOrderError(Exception):
    pass


def _table() -> tuple[Any, str]:
    return boto3.client("dynamodb"), os.environ["TABLE"]


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Store each message with its batch size and worker; handle a direct request otherwise."""
    if "Records" not in event:
        return answer(event)
    dynamodb, table = _table()
    size = {"N": str(len(event["Records"]))}
    for record in event["Records"]:
        dynamodb.update_item(
            TableName=table,
            Key={"pk": {"S": f"message/{record['body']}"}},
            UpdateExpression="ADD received :one SET batch_size = :size, worker = :pid",
            ExpressionAttributeValues={":one": {"N": "1"}, ":size": size, ":pid": {"N": str(os.getpid())}},
        )
    return {"batchItemFailures": []}


def answer(request: dict[str, str]) -> dict[str, Any]:
    """Execute a test's request."""
    if request.get("do") == "raise":
        raise NoSuchOrderError("on request\nover two lines")
    if request.get("do") == "import":
        try:
            __import__(request["module"])
        except ImportError as error:
            return {"error": type(error).__name__}
        return {"error": None}
    if request.get("do") == "print":
        sys.stdout.write(request["text"])
    return {"pid": os.getpid(), "environment": sorted(os.environ)}


def read_stream(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Count each record; report the first delivery of `fails-once` as failed."""
    dynamodb, table = _table()
    for record in event["Records"]:
        key = record["dynamodb"]["Keys"]["pk"]["S"]
        answer = dynamodb.update_item(
            TableName=table,
            Key={"pk": {"S": f"read/{key}"}},
            UpdateExpression="ADD read_count :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
            ReturnValues="ALL_NEW",
        )
        times = int(answer["Attributes"]["read_count"]["N"])
        if "fails-once" in key and times == 1:
            return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]}]}
    sys.stdout.write(json.dumps({"read": len(event["Records"])}) + "\n")
    return {"batchItemFailures": []}
