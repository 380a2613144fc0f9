"""Every read of the table that is not through an index is consistent: a lagging replica hides nothing from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.dynamodb import DynamoTable
from faultbridge.model.storage.writes import Key, Put
from tests.contracts.aws import make_table

KEY = Key("NODE#c#n", "STATE")


class LaggingReplica:
    """A DynamoDB client whose reads return no item yet, unless they are consistent."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_item(self, **request: Any) -> Any:
        return self._client.get_item(**request) if request.get("ConsistentRead") else {}

    def query(self, **request: Any) -> Any:
        return self._client.query(**request) if request.get("ConsistentRead") else {"Items": []}

    def batch_get_item(self, **request: Any) -> Any:
        consistent = all(wanted.get("ConsistentRead") for wanted in request["RequestItems"].values())
        return self._client.batch_get_item(**request) if consistent else {"Responses": {}}


@pytest.fixture
def table(clients: Clients) -> DynamoTable:
    """A table with one item, read through a replica that has not received it yet."""
    lagging = cast("Clients", SimpleNamespace(dynamodb=LaggingReplica(clients.dynamodb)))
    table = DynamoTable(lagging, make_table(clients))
    table.write(Put({"pk": KEY.pk, "sk": KEY.sk, "version": 1}))
    return table


def test_an_item_is_read_right_after_its_write(table: DynamoTable) -> None:
    assert table.get(KEY) is not None


def test_many_items_are_read_right_after_their_writes(table: DynamoTable) -> None:
    assert list(table.get_many([KEY])) == [KEY]


def test_a_partition_is_read_right_after_a_write(table: DynamoTable) -> None:
    assert [item["sk"] for item in table.query(KEY.pk).items] == [KEY.sk]
