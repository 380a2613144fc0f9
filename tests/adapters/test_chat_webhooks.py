"""Pages to Slack and Microsoft Teams: one event for each on the bus, and one post with retries of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.paging import (
    CHAT_DETAIL_TYPE,
    PAGE_SOURCE,
    SERVICES,
    BusChats,
    ChatWebhooks,
    pager_from_settings,
)
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import FailedEvent, FormattedPage, PageFormat, PageUrgency
from faultbridge.serve.entrypoints.pager import CHAT_PAGE, pager
from infra.docs.template import resources
from tests.adapters.builders import PAGE, FakePagerDuty, settings
from tests.sim.fakes import FakeBus
from tests.world import World

SLACK, TEAMS = {"text": "s", "blocks": []}, {"type": "message", "attachments": []}
FORMS = {
    PageFormat.SLACK: FormattedPage("s", json.dumps(SLACK)),
    PageFormat.TEAMS: FormattedPage("s", json.dumps(TEAMS)),
}
CHAT = replace(PAGE, forms=FORMS)
SECRET_PART = "T000-B000-XXXX"


def published(page=CHAT) -> dict[str, dict[str, Any]]:
    """Return the details that a page leaves on the bus, by service."""
    bus = FakeBus()
    BusChats(bus).send(page)
    assert {event.detail_type for event in bus.accepted} == {CHAT_DETAIL_TYPE}
    details = [json.loads(event.detail) for event in bus.accepted]
    return {detail["service"]: detail for detail in details}


@pytest.fixture
def chat(request: pytest.FixtureRequest) -> Iterator[FakePagerDuty]:
    with FakePagerDuty(getattr(request, "param", 200)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def address(server: FakePagerDuty) -> str:
    return f"http://127.0.0.1:{server.server_port}/services/{SECRET_PART}?sig={SECRET_PART}"


def webhooks(**addresses: object) -> ChatWebhooks:
    return ChatWebhooks(lambda: json.dumps(addresses).encode())


def test_a_page_is_posted_as_each_service_reads_it(chat: FakePagerDuty) -> None:
    both = webhooks(slack=address(chat), teams={"urgent": address(chat)})
    assert [both.post(detail) for detail in published().values()] == [True, True]
    assert chat.bodies == [SLACK, TEAMS]


def test_a_service_or_urgency_without_an_address_receives_nothing(chat: FakePagerDuty) -> None:
    notice = published(replace(CHAT, urgency=PageUrgency.NOTICE))
    assert not webhooks(teams={"urgent": address(chat)}).post(notice["teams"])
    assert not webhooks().post(notice["slack"])
    assert chat.bodies == []


@pytest.mark.parametrize(
    ("chat", "error"),
    [(429, Transient), (503, Transient), (404, Misconfigured), (410, Misconfigured)],
    indirect=["chat"],
)
def test_a_refused_post_is_logged_and_raised_so_that_it_is_retried_without_its_address(
    chat: FakePagerDuty, error: type[FaultbridgeError], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(error) as refused:
        webhooks(slack=address(chat)).post(published()["slack"])
    assert PAGE.key in str(refused.value)
    assert SECRET_PART not in str(refused.value) + caplog.text
    assert [record.message for record in caplog.records] == ["chat page failed; it is retried"]


def test_a_chat_that_does_not_answer_is_transient() -> None:
    with FakePagerDuty(200) as server:
        closed = address(server)
    with pytest.raises(Transient, match="slack cannot be reached") as failed:
        webhooks(slack=closed).post(published()["slack"])
    assert SECRET_PART not in str(failed.value)


@pytest.mark.parametrize("document", [b"", b"[]", b'{"slack": "http://chat.example/T000-B000-XXXX"}', b'{"slack": 1}'])
def test_an_invalid_document_is_named_without_its_addresses(document: bytes) -> None:
    with pytest.raises(Misconfigured) as refused:
        ChatWebhooks(lambda: document).post(published()["slack"])
    assert SECRET_PART not in str(refused.value)


def test_a_failed_chat_is_retried_alone_and_no_page_is_lost(chat: FakePagerDuty) -> None:
    world = World()
    world.ports.chat_webhooks = lambda: json.dumps({"slack": address(chat)}).encode()
    event = {"Records": [{"body": json.dumps({"detail-type": CHAT_PAGE, "detail": published()["slack"]})}]}
    chat.status = 503
    with pytest.raises(Transient):
        pager(event, world.app)
    chat.status = 200
    pager(event, world.app)
    assert chat.bodies == [SLACK, SLACK]
    assert world.ports.pager.sent == []


def test_a_page_that_the_bus_does_not_accept_is_transient() -> None:
    class RejectingBus(FakeBus):
        def put(self, events: Any) -> tuple[FailedEvent, ...]:
            return (FailedEvent(events[0].event_id, "ThrottlingException", permanent=False),)

    with pytest.raises(Transient, match="ThrottlingException"):
        BusChats(RejectingBus()).send(CHAT)


def test_chats_are_a_channel_only_where_they_are_configured() -> None:
    channels = [type(one) for one in pager_from_settings(settings(CHAT_WEBHOOKS="secret"), Clients())._channels]
    assert BusChats in channels
    assert BusChats not in [type(one) for one in pager_from_settings(settings(), Clients())._channels]


def test_the_rule_of_the_template_sends_the_pager_function_the_page_of_the_bus() -> None:
    rule = resources("AWS::Events::Rule")["ChatRule"]["Properties"]
    source = {"Fn::Sub": f"${{EventSource}}.{PAGE_SOURCE}"}
    assert rule["EventPattern"] == {"source": [source], "detail-type": [CHAT_DETAIL_TYPE]}
    assert rule["Targets"][0]["Arn"] == {"Fn::GetAtt": "PagesQueue.Arn"}
    assert "InputPath" not in rule["Targets"][0]
    assert CHAT_DETAIL_TYPE == CHAT_PAGE
    assert set(SERVICES) == {"slack", "teams"}
