"""Pages in the formats of PagerDuty and chat applications, within their limits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from faultbridge.record.ports.messaging import PageFormat, PageMessage
from faultbridge.serve.pager.page import Links, PagerSettings
from tests.pager.sending import sent
from tests.pages import CASE, CLOSED, ESCALATED, PAGES, QUEUED, case_event

ROOT = Path(__file__).parents[2]
LINKS = Links("https://wiki.example/runbooks", "https://console.example")


def sent_with_links(*events: dict[str, Any]) -> list[PageMessage]:
    """Return the pages that events send, with links to runbooks and timeline."""
    return sent(*events, settings=PagerSettings(LINKS))


def form(page: PageMessage, which: PageFormat) -> dict[str, Any]:
    """Return a page in one format."""
    read = json.loads(page.forms[which].body)
    assert isinstance(read, dict)
    return read


def huge() -> dict[str, Any]:
    """Return an event with texts longer than any service accepts."""
    given = case_event("escalated", reason="\u00fc" * 9000)
    given["metadata"] |= {"cluster": "c" * 200, "node": "n\u00e9" * 200}
    return given


@pytest.mark.parametrize("given", [*PAGES.values(), (huge(),)], ids=[*PAGES, "huge"])
def test_every_format_fits_the_limits_of_its_service(given: tuple[dict[str, Any], ...]) -> None:
    page = sent_with_links(*given)[-1]
    alarm, chat, event, slack, teams = (form(page, which) for which in PageFormat)
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
    assert all(len(block["text"]["text"]) <= 3000 for block in slack["blocks"])
    assert len(slack["blocks"][0]["text"]["text"]) <= 150
    assert len(page.forms[PageFormat.TEAMS].body.encode()) < 28 * 1024
    assert teams["attachments"][0]["content"]["body"]
    assert all(len(formed.body.encode()) < 256 * 1024 for formed in page.forms.values())


def test_a_trigger_and_its_resolve_have_one_key_in_every_format() -> None:
    trigger, resolve = sent_with_links(QUEUED, CLOSED)
    for which, key in ((PageFormat.ALARM, "AlarmName"), (PageFormat.PAGERDUTY, "dedup_key")):
        assert form(trigger, which)[key] == form(resolve, which)[key] == f"{CASE}:opened"
    assert [form(page, PageFormat.PAGERDUTY)["event_action"] for page in (trigger, resolve)] == ["trigger", "resolve"]
    assert [form(page, PageFormat.ALARM)["NewStateValue"] for page in (trigger, resolve)] == ["ALARM", "OK"]


def test_a_case_is_one_thread_of_a_chat() -> None:
    pages = sent_with_links(QUEUED, ESCALATED)
    assert len(pages) == 3
    assert {form(page, PageFormat.CHAT)["metadata"]["threadId"] for page in pages} == {CASE}


def test_an_urgent_page_is_an_error_at_least_and_a_notice_is_a_warning() -> None:
    mild = case_event("escalated", severity="warning")
    assert form(sent_with_links(mild)[0], PageFormat.PAGERDUTY)["payload"]["severity"] == "error"
    assert form(sent_with_links(ESCALATED)[0], PageFormat.PAGERDUTY)["payload"]["severity"] == "critical"
    assert form(sent_with_links(QUEUED)[0], PageFormat.PAGERDUTY)["payload"]["severity"] == "warning"


def test_a_page_links_to_the_timeline_and_the_runbook() -> None:
    (page,) = sent_with_links(ESCALATED)
    links = {link["text"]: link["href"] for link in form(page, PageFormat.PAGERDUTY)["links"]}
    assert links == {
        "Timeline": f"https://console.example/clusters/train-a/cases/{CASE}",
        "Runbook": "https://wiki.example/runbooks/stuck-case.md",
    }
    assert all(link in page.bodies["email"] for link in links.values())


def test_a_chat_links_to_the_timeline_and_the_runbook() -> None:
    (page,) = sent_with_links(ESCALATED)
    timeline = f"https://console.example/clusters/train-a/cases/{CASE}"
    runbook = "https://wiki.example/runbooks/stuck-case.md"
    assert form(page, PageFormat.SLACK)["blocks"][-1]["text"]["text"] == f"<{timeline}|Timeline> | <{runbook}|Runbook>"
    card = form(page, PageFormat.TEAMS)["attachments"][0]["content"]
    assert {one["title"]: one["url"] for one in card["actions"]} == {"Timeline": timeline, "Runbook": runbook}


def test_a_chat_shows_text_of_records_without_reading_markup_in_it() -> None:
    (page,) = sent_with_links(case_event("escalated", reason="<!channel> *x* [open](https://evil.example)"))
    slack, teams = form(page, PageFormat.SLACK), form(page, PageFormat.TEAMS)
    read_as_markup = [block["text"]["text"] for block in slack["blocks"] if block["text"]["type"] == "mrkdwn"]
    assert "evil.example" not in "".join([slack["text"], *read_as_markup])
    assert "evil.example" in slack["blocks"][1]["text"]["text"]
    elements = teams["attachments"][0]["content"]["body"]
    assert {run["type"] for element in elements for run in element["inlines"]} == {"TextRun"}
    assert {element["type"] for element in elements} == {"RichTextBlock"}


def test_the_notification_text_of_slack_escapes_markup() -> None:
    marked = case_event("escalated")
    marked["data"]["cause"] = {**marked["data"].get("cause", {}), "code": "x<!channel>&"}
    (page,) = sent_with_links(marked)
    assert "<" not in form(page, PageFormat.SLACK)["text"]


def test_without_base_urls_a_page_names_the_runbook_in_the_repository() -> None:
    (page,) = sent(ESCALATED)
    assert form(page, PageFormat.PAGERDUTY)["links"] == []
    assert "docs/runbooks/stuck-case.md" in page.bodies["email"]


def test_the_example_in_the_docs_is_the_golden_page() -> None:
    shown = (ROOT / "docs" / "page-example.md").read_text(encoding="utf-8")
    golden = (ROOT / "tests" / "pager" / "golden" / "page-case-escalated.txt").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in golden.split("== ")[1:]]
    assert [name for name, _, body in parts if body.strip() not in shown] == []
