"""The ways to people beside SNS: PagerDuty through the bus or by a post, and all of them together."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.pagerduty import DETAIL_TYPE, BusPagerDuty, HttpPagerDuty
from faultbridge.adapters.pagers import PAGE_SOURCE, EveryWay, pager_of
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import PageForm, PageFormed, PageMessage, PageUrgency, Refusal
from faultbridge.settings import Settings
from faultbridge.simulation.fakes import FakeBus, FakePager, breaking
from tests.architecture.project import resources

EVENT = {"event_action": "trigger", "dedup_key": "c-1:escalated", "payload": {"summary": "x"}}
PAGE = PageMessage(
    key="c-1:escalated",
    urgency=PageUrgency.URGENT,
    subject="s",
    bodies={"default": "text"},
    attributes={"cluster": "train-a", "urgency": "urgent"},
    forms={PageForm.PAGERDUTY: PageFormed("s", json.dumps(EVENT))},
)


class Answering(ThreadingHTTPServer):
    """A server that answers every post with one status and remembers it; it stands in for PagerDuty."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Post)
        self.status = status
        self.bodies: list[Any] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}/v2/enqueue"


class Post(BaseHTTPRequestHandler):
    """One post."""

    server: Answering

    def do_POST(self) -> None:
        """Answer and remember."""
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b'{"status": "whatever"}')

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@pytest.fixture
def pagerduty(request: pytest.FixtureRequest) -> Iterator[Answering]:
    with Answering(getattr(request, "param", 202)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_post_adds_the_routing_key_and_nothing_else(pagerduty: Answering) -> None:
    assert HttpPagerDuty(pagerduty.url, lambda: b"r-key").send(PAGE) == PAGE.key
    assert pagerduty.bodies == [EVENT | {"routing_key": "r-key"}]


@pytest.mark.parametrize("pagerduty", [429, 500, 503], indirect=True)
def test_a_post_that_may_succeed_later_comes_again(pagerduty: Answering) -> None:
    with pytest.raises(Transient):
        HttpPagerDuty(pagerduty.url, lambda: b"r-key").send(PAGE)


@pytest.mark.parametrize("pagerduty", [400, 403], indirect=True)
def test_a_post_that_is_refused_names_the_page_and_no_key(pagerduty: Answering) -> None:
    with pytest.raises(Misconfigured, match="c-1:escalated") as refused:
        HttpPagerDuty(pagerduty.url, lambda: b"r-key").send(PAGE)
    assert "r-key" not in str(refused.value)


def test_a_service_out_of_reach_is_tried_again() -> None:
    with Answering(202) as server:
        url = server.url
    with pytest.raises(Transient, match="cannot be reached"):
        HttpPagerDuty(url, lambda: b"r-key").send(PAGE)


def test_on_the_bus_the_event_lies_where_the_rule_takes_it_from() -> None:
    bus = FakeBus()
    BusPagerDuty(bus).send(PAGE)
    (event,) = bus.taken
    assert event.detail_type == "Page"
    assert json.loads(event.detail) == {"pagerduty": EVENT, "cluster": "train-a", "urgency": "urgent"}


def test_a_bus_that_does_not_take_the_page_is_tried_again() -> None:
    class Refusing(FakeBus):
        def put(self, events: Any) -> tuple[Refusal, ...]:
            return (Refusal(events[0].event_id, "ThrottlingException", permanent=False),)

    with pytest.raises(Transient, match="ThrottlingException"):
        BusPagerDuty(Refusing()).send(PAGE)


def test_a_way_that_fails_stops_no_other_and_the_page_comes_again() -> None:
    first, second, third = FakePager(), FakePager(), FakePager()
    second.seam.before = breaking(("pager.send", Transient("down")))
    every = EveryWay([first, second, third])
    with pytest.raises(Transient, match="down"):
        every.send(PAGE)
    assert every.send(PAGE) == "message-2"
    assert [len(one.sent) for one in (first, second, third)] == [2, 1, 2]


def settings(**variables: str) -> Settings:
    """Settings of a pager."""
    given = {"URGENT_TOPIC": "u", "NOTICE_TOPIC": "n", "BUS": "b", **variables}
    return Settings({f"FAULTBRIDGE_{name}": value for name, value in given.items()})


def test_a_way_to_pagerduty_that_is_none_is_named() -> None:
    with pytest.raises(Misconfigured, match="FAULTBRIDGE_PAGERDUTY is neither"):
        pager_of(settings(PAGERDUTY="http://pagerduty.example"), Clients())


@pytest.mark.parametrize("way", ["", "bus", "https://events.pagerduty.com/v2/enqueue"])
def test_every_way_that_is_named_is_put_together_without_a_call(way: str) -> None:
    assert isinstance(pager_of(settings(PAGERDUTY=way, PAGERDUTY_KEY="secret"), Clients()), EveryWay)


def test_the_rule_of_the_template_takes_what_the_pager_puts_on_the_bus() -> None:
    rule = resources("AWS::Events::Rule")["PagerDutyRule"]["Properties"]
    assert rule["EventPattern"] == {
        "source": [{"Fn::Sub": f"${{EventSource}}.{PAGE_SOURCE}"}],
        "detail-type": [DETAIL_TYPE],
    }
    (target,) = rule["Targets"]
    bus = FakeBus()
    BusPagerDuty(bus).send(PAGE)
    path = target["InputPath"].removeprefix("$.detail.")
    assert json.loads(bus.taken[0].detail)[path] == EVENT
    connection = resources("AWS::Events::Connection")["PagerDutyConnection"]["Properties"]["AuthParameters"]
    (key,) = connection["InvocationHttpParameters"]["BodyParameters"]
    assert (key["Key"], key["IsValueSecret"]) == ("routing_key", True)
