"""The EventBus port: the fake and EventBridge alike."""

from __future__ import annotations

import json

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.eventbridge import EventBridgeBus
from faultbridge.ports import BusEvent, EventBus
from faultbridge.simulation.fakes import FakeBus
from tests.contracts.aws import fresh


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
    def test_good_events_are_taken_however_many_they_are(self, bus: EventBus) -> None:
        assert bus.put([event(number) for number in range(25)]) == ()

    def test_no_events_are_no_trouble(self, bus: EventBus) -> None:
        assert bus.put([]) == ()

    @pytest.mark.parametrize("detail", ["", "{", "[1]", '"text"', "null", padded(256 * 1024)])
    def test_content_that_the_bus_will_never_take_is_refused_for_good(self, bus: EventBus, detail: str) -> None:
        refusals = bus.put([event(1), event(2, detail), event(3)])
        assert [(refusal.event_id, refusal.permanent) for refusal in refusals] == [("event-2", True)]
        assert refusals[0].reason

    def test_events_that_fill_a_call_each_are_all_taken(self, bus: EventBus) -> None:
        assert bus.put([event(number, padded(250_000)) for number in range(9)]) == ()

    def test_resources_travel_along(self, bus: EventBus) -> None:
        assert bus.put([event(resources=("arn:aws:ec2:us-east-1:1:instance/i-1",))]) == ()
