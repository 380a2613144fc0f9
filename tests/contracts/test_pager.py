"""The Pager port: the fake and SNS alike."""

from __future__ import annotations

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.sns import SnsPager
from faultbridge.ports import PageForm, PageFormed, PageMessage, Pager, PageUrgency
from faultbridge.simulation.fakes import FakePager
from tests.contracts.aws import fresh


@pytest.fixture(params=["fake", "sns"])
def pager(request: pytest.FixtureRequest, clients: Clients) -> Pager:
    if request.param == "fake":
        return FakePager()
    urgent, notice = (clients.sns.create_topic(Name=fresh(kind))["TopicArn"] for kind in ("urgent", "notice"))
    chat = clients.sns.create_topic(Name=fresh("chat"))["TopicArn"]
    return SnsPager(clients, urgent_topic=urgent, notice_topic=notice, form_topics={PageForm.CHAT: chat})


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
    def test_a_page_gets_an_id(self, pager: Pager, urgency: PageUrgency) -> None:
        assert pager.send(page(urgency=urgency))

    def test_a_repetition_is_another_message(self, pager: Pager) -> None:
        assert pager.send(page()) != pager.send(page())

    def test_a_service_gets_its_own_shape(self, pager: Pager) -> None:
        assert pager.send(page(forms={PageForm.CHAT: PageFormed("s\u00fc\u00df", "{}")}))

    def test_an_awkward_subject_does_not_stop_a_page(self, pager: Pager) -> None:
        assert pager.send(page(subject="Knoten süß\n" + "x" * 200))

    def test_a_page_without_a_default_body_is_a_mistake(self, pager: Pager) -> None:
        with pytest.raises(ValueError, match="default"):
            pager.send(page(bodies={"email": "text"}))
