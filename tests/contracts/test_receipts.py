"""The Receipts port: the same tests for the fake and CloudWatch Logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.receipts import LogReceipts
from faultbridge.record.ports.messaging import Receipts
from faultbridge.record.ports.table import Clock
from tests.contracts.aws import fresh
from tests.sim.fakes import FakeReceipts, ManualClock

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(params=["fake", "logs"])
def receipts(request: pytest.FixtureRequest, clients: Clients, clock: Clock) -> Receipts:
    if request.param == "fake":
        return FakeReceipts(clock)
    return LogReceipts(clients, group=f"/faultbridge/{fresh('stack')}/senders", now=clock.now)


class TestReceipts:
    def test_lines_are_read_back_unchanged(self, receipts: Receipts) -> None:
        lines: list[dict[str, Any]] = [{"sent": ["r-1", "r-2"], "text": "ä"}, {"outcomes": {"r-1": "recorded"}, "n": 1}]
        for line in lines:
            receipts.write(line)
        assert list(receipts.read(NOW)) == lines

    def test_only_lines_since_the_given_time_are_read(self, receipts: Receipts, clock: ManualClock) -> None:
        receipts.write({"n": 1})
        clock.advance(5)
        receipts.write({"n": 2})
        assert list(receipts.read(clock.now())) == [{"n": 2}]
        assert list(receipts.read(clock.now() + timedelta(milliseconds=1))) == []

    def test_an_empty_log_has_no_lines(self, receipts: Receipts) -> None:
        assert list(receipts.read(NOW)) == []
