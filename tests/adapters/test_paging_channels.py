"""PagerDuty through the bus or by an HTTP request, and all channels together."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.paging import (
    PAGE_SOURCE,
    PAGERDUTY_DETAIL_TYPE,
    AllChannels,
    BusPagerDuty,
    HttpPagerDuty,
    confirmed_subscriptions,
    pager_from_settings,
)
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.messaging import FailedEvent
from infra.docs.template import resources
from tests.adapters.builders import EVENT, PAGE, FakePagerDuty, settings
from tests.adapters.stubs import stubbed
from tests.sim.fakes import FakeBus, FakePager, raise_once


@pytest.fixture
def pagerduty(request: pytest.FixtureRequest) -> Iterator[FakePagerDuty]:
    with FakePagerDuty(getattr(request, "param", 202)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_request_adds_only_the_routing_key(pagerduty: FakePagerDuty) -> None:
    assert HttpPagerDuty(pagerduty.url, lambda: b"r-key").send(PAGE) == PAGE.key
    assert pagerduty.bodies == [EVENT | {"routing_key": "r-key"}]


@pytest.mark.parametrize("pagerduty", [429, 500, 503], indirect=True)
def test_a_temporary_http_error_is_transient(pagerduty: FakePagerDuty) -> None:
    with pytest.raises(Transient):
        HttpPagerDuty(pagerduty.url, lambda: b"r-key").send(PAGE)


@pytest.mark.parametrize("pagerduty", [400, 403], indirect=True)
def test_the_error_of_a_rejected_request_names_the_page_and_not_the_routing_key(pagerduty: FakePagerDuty) -> None:
    with pytest.raises(Misconfigured, match="c-1:escalated") as refused:
        HttpPagerDuty(pagerduty.url, lambda: b"r-key").send(PAGE)
    assert "r-key" not in str(refused.value)


def test_an_unreachable_service_is_transient() -> None:
    with FakePagerDuty(202) as server:
        url = server.url
    with pytest.raises(Transient, match="cannot be reached"):
        HttpPagerDuty(url, lambda: b"r-key").send(PAGE)


def test_the_event_on_the_bus_is_where_the_rule_reads_it() -> None:
    bus = FakeBus()
    BusPagerDuty(bus).send(PAGE)
    (event,) = bus.accepted
    assert event.detail_type == "Page"
    assert json.loads(event.detail) == {"pagerduty": EVENT, "cluster": "train-a", "urgency": "urgent"}


def test_a_page_that_the_bus_does_not_accept_is_transient() -> None:
    class RejectingBus(FakeBus):
        def put(self, events: Any) -> tuple[FailedEvent, ...]:
            return (FailedEvent(events[0].event_id, "ThrottlingException", permanent=False),)

    with pytest.raises(Transient, match="ThrottlingException"):
        BusPagerDuty(RejectingBus()).send(PAGE)


def test_a_failed_channel_does_not_stop_the_others_and_the_error_is_raised() -> None:
    first, second, third = FakePager(), FakePager(), FakePager()
    second.seam.before = raise_once(("pager.send", Transient("down")))
    every = AllChannels([first, second, third])
    with pytest.raises(Transient, match="down"):
        every.send(PAGE)
    assert every.send(PAGE) == "message-2"
    assert [len(one.sent) for one in (first, second, third)] == [2, 1, 2]


@pytest.mark.parametrize("url", ["http://pagerduty.example", "http://127.0.0.1.pagerduty.example/v2/enqueue"])
def test_an_invalid_pagerduty_setting_is_named(url: str) -> None:
    with pytest.raises(Misconfigured, match="invalid FAULTBRIDGE_PAGERDUTY"):
        pager_from_settings(settings(PAGERDUTY=url), Clients())


@pytest.mark.parametrize("way", ["", "bus", "https://events.pagerduty.com/v2/enqueue"])
def test_every_configured_channel_is_built_without_a_call(way: str) -> None:
    assert isinstance(pager_from_settings(settings(PAGERDUTY=way, PAGERDUTY_KEY="secret"), Clients()), AllChannels)


def test_the_rule_of_the_template_matches_the_page_on_the_bus() -> None:
    rule = resources("AWS::Events::Rule")["PagerDutyRule"]["Properties"]
    assert rule["EventPattern"] == {
        "source": [{"Fn::Sub": f"${{EventSource}}.{PAGE_SOURCE}"}],
        "detail-type": [PAGERDUTY_DETAIL_TYPE],
    }
    (target,) = rule["Targets"]
    bus = FakeBus()
    BusPagerDuty(bus).send(PAGE)
    path = target["InputPath"].removeprefix("$.detail.")
    assert json.loads(bus.accepted[0].detail)[path] == EVENT
    connection = resources("AWS::Events::Connection")["PagerDutyConnection"]["Properties"]["AuthParameters"]
    (key,) = connection["InvocationHttpParameters"]["BodyParameters"]
    assert (key["Key"], key["IsValueSecret"]) == ("routing_key", True)


def test_the_confirmed_subscriptions_of_a_topic_are_counted() -> None:
    for attributes, count in (({"SubscriptionsConfirmed": "2", "SubscriptionsPending": "1"}, 2), ({}, 0)):
        with stubbed("sns") as (clients, stub):
            stub.add_response("get_topic_attributes", {"Attributes": attributes}, {"TopicArn": "arn:urgent"})
            assert confirmed_subscriptions(clients, "arn:urgent") == count
