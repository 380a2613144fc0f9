"""One page in the shapes of PagerDuty and of chats, within their lengths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from faultbridge.pager.deliver import Paging
from faultbridge.pager.page import Links, PagerSettings
from faultbridge.ports import PageFormat, PageMessage
from faultbridge.simulation.fakes import FakePager, FakeTable, ManualClock
from tests.pages import CASE, CLOSED, ESCALATED, PAGES, QUEUED, case_event

ROOT = Path(__file__).parents[2]
LINKS = Links("https://wiki.example/runbooks", "https://api.example")


def sent(*events: dict[str, Any], links: Links = LINKS) -> list[PageMessage]:
    """The pages that events lead to."""
    clock = ManualClock()
    pager = FakePager()
    paging = Paging(FakeTable(clock), pager, clock, PagerSettings(links))
    for one in events:
        paging(one)
    return pager.sent


def form(page: PageMessage, which: PageFormat) -> dict[str, Any]:
    """A page in one shape."""
    read = json.loads(page.forms[which].body)
    assert isinstance(read, dict)
    return read


def huge() -> dict[str, Any]:
    """A page with texts that no service takes."""
    given = case_event("escalated", reason="\u00fc" * 9000)
    given["metadata"] |= {"cluster": "c" * 200, "node": "n\u00e9" * 200}
    return given


@pytest.mark.parametrize("given", [*PAGES.values(), (huge(),)], ids=[*PAGES, "huge"])
def test_every_service_takes_what_it_gets(given: tuple[dict[str, Any], ...]) -> None:
    page = sent(*given)[-1]
    alarm, chat, event = (form(page, which) for which in PageFormat)
    assert re.match("(ALARM|OK): ", page.forms[PageFormat.ALARM].subject)
    assert all(len(formed.subject) <= 100 for formed in page.forms.values())
    assert page.forms[PageFormat.ALARM].subject.startswith(alarm["NewStateValue"])
    content = chat["content"]
    assert (chat["version"], chat["source"], content["textType"]) == ("1.0", "custom", "client-markdown")
    assert len(content["title"]) <= 250
    assert 0 < len(content["description"]) <= 8000
    assert all(len(step) <= 350 for step in content["nextSteps"])
    assert all(len(word) <= 75 for word in content["keywords"])
    assert all(isinstance(text, str) for text in chat["metadata"]["additionalContext"].values())
    assert len(event["dedup_key"]) <= 255
    if event["event_action"] == "trigger":
        assert len(event["payload"]["summary"]) <= 1024
        assert event["payload"]["severity"] in {"critical", "error", "warning", "info"}
    assert all(len(formed.body.encode()) < 256 * 1024 for formed in page.forms.values())


def test_a_trigger_and_its_end_have_one_key_in_every_shape() -> None:
    began, ended = sent(QUEUED, CLOSED)
    for which, key in ((PageFormat.ALARM, "AlarmName"), (PageFormat.PAGERDUTY, "dedup_key")):
        assert form(began, which)[key] == form(ended, which)[key] == f"{CASE}:opened"
    assert [form(page, PageFormat.PAGERDUTY)["event_action"] for page in (began, ended)] == ["trigger", "resolve"]
    assert [form(page, PageFormat.ALARM)["NewStateValue"] for page in (began, ended)] == ["ALARM", "OK"]


def test_a_case_is_one_thread_of_a_chat() -> None:
    pages = sent(QUEUED, ESCALATED)
    assert len(pages) == 3
    assert {form(page, PageFormat.CHAT)["metadata"]["threadId"] for page in pages} == {CASE}


def test_who_is_woken_is_woken_for_an_error_at_least_and_a_notice_wakes_nobody() -> None:
    mild = case_event("escalated", severity="warning")
    assert form(sent(mild)[0], PageFormat.PAGERDUTY)["payload"]["severity"] == "error"
    assert form(sent(ESCALATED)[0], PageFormat.PAGERDUTY)["payload"]["severity"] == "critical"
    assert form(sent(QUEUED)[0], PageFormat.PAGERDUTY)["payload"]["severity"] == "warning"


def test_a_page_leads_to_the_timeline_and_the_runbook() -> None:
    (page,) = sent(ESCALATED)
    links = {link["text"]: link["href"] for link in form(page, PageFormat.PAGERDUTY)["links"]}
    assert links == {
        "Timeline": f"https://api.example/clusters/train-a/entries?case={CASE}",
        "Runbook": "https://wiki.example/runbooks/stuck-case.md",
    }
    assert all(link in page.bodies["email"] for link in links.values())


def test_without_places_to_link_to_a_page_names_the_runbook_in_the_repository() -> None:
    (page,) = sent(ESCALATED, links=Links())
    assert form(page, PageFormat.PAGERDUTY)["links"] == []
    assert "docs/runbooks/stuck-case.md" in page.bodies["email"]


def test_the_page_of_the_docs_shows_what_is_sent() -> None:
    shown = (ROOT / "docs" / "pages.md").read_text(encoding="utf-8")
    golden = (ROOT / "tests" / "pager" / "golden" / "page-case-escalated.txt").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in golden.split("== ")[1:]]
    assert [name for name, _, body in parts if body.strip() not in shown] == []
