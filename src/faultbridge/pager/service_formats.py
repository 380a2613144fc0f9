"""Forms: one page in the shapes of pager services and chats, each within that service's lengths.

Shapes: PagerDuty's Amazon CloudWatch integration behind an SNS topic, PagerDuty's Events API v2, and the custom
notifications of Amazon Q Developer in chat applications.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from faultbridge.domain.times import to_text
from faultbridge.pager.page import Page, PageState
from faultbridge.pager.text_formats import MACHINE_READ, attributes, document, json_text, plain_text, rows, sms, subject
from faultbridge.ports import FormattedPage, PageFormat, PageMessage, PageUrgency

MAX_DEDUP_KEY = 255
MAX_PAGERDUTY_SUMMARY = 1024
MAX_CHAT_TITLE, MAX_CHAT_TEXT, MAX_CHAT_STEP, MAX_CHAT_KEYWORD = 250, 8000, 350, 75

_COLOURS = {PageState.TRIGGERED: ":red_circle:", PageState.RESOLVED: ":large_green_circle:"}


def forms_of(page: Page) -> dict[PageFormat, FormattedPage]:
    """Render a page for every service that reads a shape of its own."""
    return {
        PageFormat.ALARM: FormattedPage(alarm_subject(page), _json(alarm(page))),
        PageFormat.CHAT: FormattedPage(subject(page), _json(chat(page))),
        PageFormat.PAGERDUTY: FormattedPage(subject(page), _json(pagerduty(page))),
    }


def alarm_subject(page: Page) -> str:
    """Return the subject that PagerDuty reads the state from: it begins as the one of a CloudWatch alarm does."""
    return f"{_alarm_state(page)}: {subject(page)}"[:100]


def alarm(page: Page) -> dict[str, Any]:
    """Return a page as a CloudWatch alarm, whose name tells PagerDuty which alert begins and ends."""
    return {
        "AlarmName": page.key,
        "AlarmDescription": plain_text(page),
        "NewStateValue": _alarm_state(page),
        "NewStateReason": subject(page),
        "StateChangeTime": to_text(page.at),
        "Faultbridge": document(page),
    }


def pagerduty(page: Page) -> dict[str, Any]:
    """Return an event of PagerDuty's API v2, without the routing key that whoever sends it adds."""
    event: dict[str, Any] = {"event_action": "trigger", "dedup_key": page.key[:MAX_DEDUP_KEY], "client": "Faultbridge"}
    if page.state is PageState.RESOLVED:
        return event | {"event_action": "resolve"}
    details = {label: value for label, value in rows(page) if value}
    links = ((page.timeline, "Timeline"), (page.runbook, "Runbook"))
    return event | {
        "payload": {
            "summary": subject(page)[:MAX_PAGERDUTY_SUMMARY],
            "source": f"{page.place.cluster}/{page.place.node}" if page.place.node else page.place.cluster,
            "severity": _severity(page),
            "timestamp": to_text(page.at),
            "component": page.place.component or "cluster",
            "group": page.place.cluster,
            "class": page.code or page.event_type or "summary",
            "custom_details": details | {"Commands": list(page.commands), "Note": page.note},
        },
        "links": [{"href": link, "text": text} for link, text in links if link.startswith("https://")],
    }


def chat(page: Page) -> dict[str, Any]:
    """Return a custom notification; everything about one case is one thread."""
    steps = [page.reader, *(f"`{command}`" for command in page.commands), f"Runbook: {page.runbook}"]
    context = {label: value for label, value in rows(page) if value}
    return {
        "version": "1.0",
        "source": "custom",
        "id": f"{page.event_id or page.key}:{page.state.value}",
        "content": {
            "textType": "client-markdown",
            "title": f"{_COLOURS[page.state]} {subject(page)}"[:MAX_CHAT_TITLE],
            "description": _markdown(page)[:MAX_CHAT_TEXT],
            "nextSteps": [step[:MAX_CHAT_STEP] for step in steps],
            "keywords": [word[:MAX_CHAT_KEYWORD] for word in (page.place.cluster, page.code, page.place.node) if word],
        },
        "metadata": {
            "threadId": page.case_id or page.key,
            "summary": subject(page),
            "eventType": page.event_type or "Summary",
            "relatedResources": [one for one in (page.place.node, page.place.instance_id, page.place.serial) if one],
            "additionalContext": context,
            "enableCustomActions": False,
        },
    }


def _markdown(page: Page) -> str:
    told = [f"*{label}*: {value}" for label, value in rows(page) if value and label != "You must"]
    named = [f"\u2022 {one.node} {one.code}" for one in page.members]
    return "\n".join([*told, *named, *([page.note] if page.note else [])])


def _severity(page: Page) -> str:
    if page.urgency is PageUrgency.NOTICE:
        return "warning"
    # A page that wakes somebody is never less than an error, whatever the fault behind it.
    return "critical" if page.severity == "fatal" else "error"


def _alarm_state(page: Page) -> str:
    return "ALARM" if page.state is PageState.TRIGGERED else "OK"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def message_of(page: Page) -> PageMessage:
    """Render a page for every protocol and service at once."""
    text, read_by_programs = plain_text(page), json_text(page)
    return PageMessage(
        key=page.key,
        urgency=page.urgency,
        subject=subject(page),
        bodies={"default": text, "email": text, "sms": sms(page), **dict.fromkeys(MACHINE_READ, read_by_programs)},
        attributes=attributes(page),
        forms=forms_of(page),
    )
