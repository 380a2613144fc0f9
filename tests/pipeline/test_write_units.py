"""The write units of a burst, as DynamoDB bills them: by the size of each item, twice in a transaction."""

from __future__ import annotations

import pytest

from tests.bench.calls import configured
from tests.bench.dynamodb_meter import WRITE_UNIT
from tests.bench.living_fleet import Burst
from tests.sim.fakes.item_size import item_bytes

NODES = 60


@pytest.fixture(scope="module")
def burst() -> tuple[Burst, float]:
    run = Burst(NODES, configured(), "act", 800)
    bill, _ = run.measure([("fatal", f"n{number}") for number in range(NODES)])
    return run, bill.billed["write_request_unit"] / NODES


def test_a_failing_node_that_is_isolated_and_queued_needs_at_most_83_write_units(burst: tuple[Burst, float]) -> None:
    assert burst[1] <= 83


def test_every_entry_of_a_failing_node_fits_into_one_write_unit(burst: tuple[Burst, float]) -> None:
    entries = [one for one in burst[0].world.ports.table.items() if "event_id" in one]
    assert len(entries) > 6 * NODES
    assert [one for one in entries if item_bytes(one) > WRITE_UNIT] == []
