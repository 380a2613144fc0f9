"""AWS for the contract tests: moto in this process, or an endpoint that a variable names.

FAULTBRIDGE_CONTRACT_ENDPOINT is a URL. LOCALSTACK_HOST is `host:port`; localstack-client reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest import mock
from uuid import uuid4

from localstack_client.config import get_service_endpoint
from moto import mock_aws

from faultbridge.adapters.aws.clients import Clients
from faultbridge.model.storage.writes import INDEXES
from tests.sim.fakes.table import PROJECTED

REGION = "us-east-1"
ENDPOINT = os.environ.get("FAULTBRIDGE_CONTRACT_ENDPOINT") or (
    get_service_endpoint("dynamodb") if "LOCALSTACK_HOST" in os.environ else None
)
ON_MOTO = ENDPOINT is None
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
}
_run = uuid4().hex[:8]
_numbers = count(1)


def fresh(kind: str) -> str:
    """A unique name."""
    return f"{kind}-{_run}-{next(_numbers)}"


@contextmanager
def aws() -> Iterator[Clients]:
    """Clients of a moto of this test alone, or of the configured endpoint."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {**outside, **CREDENTIALS}, clear=True))
        if ON_MOTO:
            stack.enter_context(mock_aws())
        yield Clients(region=REGION, endpoint_url=ENDPOINT)


def make_table(clients: Clients) -> str:
    """Create the single table with its indexes and return its name."""
    name = fresh("table")
    indexes: list[Any] = [
        {
            "IndexName": index.name,
            "KeySchema": _schema(index.pk, index.sk),
            "Projection": {"ProjectionType": "KEYS_ONLY"}
            if index.keys_only
            else {"ProjectionType": "INCLUDE", "NonKeyAttributes": sorted(PROJECTED)},
        }
        for index in INDEXES
    ]
    names = dict.fromkeys(["pk", "sk", *(part for index in INDEXES for part in (index.pk, index.sk))])
    clients.dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": part, "AttributeType": "S"} for part in names],
        KeySchema=_schema("pk", "sk"),
        GlobalSecondaryIndexes=indexes,
    )
    return name


def _schema(pk: str, sk: str) -> Any:
    return [{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}]
