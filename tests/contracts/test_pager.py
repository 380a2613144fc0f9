"""The Pager port: the same tests for the fake and SNS."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.paging import SnsPager
from faultbridge.record.ports.messaging import FormattedPage, PageFormat, PageMessage, Pager, PageUrgency
from tests.contracts.aws import fresh
from tests.sim.fakes import FakePager


@pytest.fixture(params=["fake", "sns"])
def pager(request: pytest.FixtureRequest, clients: Clients) -> Pager:
    if request.param == "fake":
        return FakePager()
    urgent, notice = (clients.sns.create_topic(Name=fresh(kind))["TopicArn"] for kind in ("urgent", "notice"))
    chat = clients.sns.create_topic(Name=fresh("chat"))["TopicArn"]
    return SnsPager(clients, urgent_topic=urgent, notice_topic=notice, form_topics={PageFormat.CHAT: chat})


def page(**changes: object) -> PageMessage:
    fields: dict[str, object] = {
        "key": "c-1:escalated",
        "urgency": PageUrgency.URGENT,
        "subject": "[urgent] node-1 escalated",
        "bodies": {"default": "text", "email": "text", "https": '{"a": 1}'},
        "attributes": {"cluster": "c", "severity": "fatal"},
    }
    return PageMessage(**(fields | changes))  # type: ignore[arg-type] # the fields above


class TestPager:
    @pytest.mark.parametrize("urgency", list(PageUrgency))
    def test_a_page_has_a_message_id(self, pager: Pager, urgency: PageUrgency) -> None:
        assert pager.send(page(urgency=urgency))

    def test_a_repeated_page_is_a_new_message(self, pager: Pager) -> None:
        assert pager.send(page()) != pager.send(page())

    def test_a_page_may_have_a_format_of_its_own(self, pager: Pager) -> None:
        assert pager.send(page(forms={PageFormat.CHAT: FormattedPage("s\u00fc\u00df", "{}")}))

    def test_any_subject_can_be_sent(self, pager: Pager) -> None:
        assert pager.send(page(subject="Knoten süß\n" + "x" * 200))

    def test_a_page_without_a_default_body_is_an_error(self, pager: Pager) -> None:
        with pytest.raises(ValueError, match="default"):
            pager.send(page(bodies={"email": "text"}))
