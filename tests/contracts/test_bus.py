"""The EventBus port: the same tests for the fake and EventBridge."""

from __future__ import annotations

import json

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.messaging import EventBridgeBus
from faultbridge.record.ports.messaging import BusEvent, EventBus
from tests.contracts.aws import fresh
from tests.sim.fakes import FakeBus


@pytest.fixture(params=["fake", "eventbridge"])
def bus(request: pytest.FixtureRequest, clients: Clients) -> EventBus:
    if request.param == "fake":
        return FakeBus()
    name = fresh("bus")
    clients.events.create_event_bus(Name=name)
    return EventBridgeBus(clients, name, "faultbridge")


def event(number: int = 1, detail: str = '{"a": "b"}', **more: object) -> BusEvent:
    return BusEvent(f"event-{number}", "Node Status Change", detail, **more)  # type: ignore[arg-type] # resources


def padded(size: int) -> str:
    return json.dumps({"text": "x" * (size - len('{"text": ""}'))})


class TestPut:
    def test_any_number_of_valid_events_is_accepted(self, bus: EventBus) -> None:
        assert bus.put([event(number) for number in range(25)]) == ()

    def test_no_events_give_no_failures(self, bus: EventBus) -> None:
        assert bus.put([]) == ()

    @pytest.mark.parametrize("detail", ["", "{", "[1]", '"text"', "null", padded(256 * 1024)])
    def test_invalid_content_fails_permanently(self, bus: EventBus, detail: str) -> None:
        failures = bus.put([event(1), event(2, detail), event(3)])
        assert [(failure.event_id, failure.permanent) for failure in failures] == [("event-2", True)]
        assert failures[0].reason

    def test_events_that_each_fill_a_call_are_all_accepted(self, bus: EventBus) -> None:
        assert bus.put([event(number, padded(250_000)) for number in range(9)]) == ()

    def test_events_may_name_resources(self, bus: EventBus) -> None:
        assert bus.put([event(resources=("arn:aws:ec2:us-east-1:1:instance/i-1",))]) == ()
