"""Cost of one timeline page on DynamoDB: requests sent and items evaluated.

The speed of the emulator is not measured. The test fills it without its API, which would take hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.dynamodb import DynamoTable, to_typed_item
from faultbridge.record.timeline import Timeline
from tests.contracts.aws import ON_MOTO, REGION, aws, make_table
from tests.ledger.builders import MAX_COST, NODES, PAGE, QUERIES, SHARDS
from tests.ledger.bulk import rows

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not ON_MOTO, reason="only moto can be filled without its API"),
]

SIZES = (10_000, 100_000, 300_000)


class Meter:
    """Counts DynamoDB requests, and the items that they evaluated or returned."""

    def __init__(self, clients: Clients) -> None:
        self.requests = self.read = 0
        clients.dynamodb.meta.events.register("after-call.dynamodb", self._count)

    def _count(self, parsed: dict[str, Any], **_: Any) -> None:
        self.requests += 1
        got = sum(len(found) for found in parsed.get("Responses", {}).values())
        self.read += parsed.get("ScannedCount", got or int("Item" in parsed))


@pytest.fixture(scope="module", params=SIZES)
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[DynamoTable, Meter]]:
    """A table with that many entries of 2,000 nodes."""
    with aws() as clients:
        name = make_table(clients)
        table = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].get_table(name)
        for row in rows(request.param, NODES, SHARDS):
            table.put_item(to_typed_item(row), overwrite=True)
        yield DynamoTable(clients, name), Meter(clients)


@pytest.mark.parametrize("asked", QUERIES)
def test_the_cost_of_a_page_does_not_depend_on_the_number_of_entries(
    asked: str, filled: tuple[DynamoTable, Meter]
) -> None:
    table, meter = filled
    timeline, token = Timeline(table), None
    for _ in range(2):
        before = meter.requests, meter.read
        lines, token = timeline.page(QUERIES[asked], PAGE, token)
        assert lines
        assert meter.requests - before[0] <= MAX_COST[asked][0]
        assert meter.read - before[1] <= MAX_COST[asked][1]
        if token is None:
            break
