"""Renders a page for pager services and chat applications, within the size limits of each.

Formats: a CloudWatch alarm for PagerDuty's Amazon CloudWatch integration behind SNS, an event of PagerDuty's Events API
v2, and a custom notification of Amazon Q Developer in chat applications.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from faultbridge.domain.times import to_text
from faultbridge.pager.chat_formats import slack, teams
from faultbridge.pager.page import Page, PageState
from faultbridge.pager.text_formats import (
    ACTION_LABEL,
    JSON_PROTOCOLS,
    attributes,
    document,
    json_text,
    place_text,
    plain_text,
    rows,
    sms,
    subject,
)
from faultbridge.ports import FormattedPage, PageFormat, PageMessage, PageUrgency

MAX_DEDUP_KEY = 255
MAX_PAGERDUTY_SUMMARY = 1024
MAX_CHAT_TITLE, MAX_CHAT_TEXT, MAX_CHAT_STEP, MAX_CHAT_KEYWORD = 250, 8000, 350, 75

_EMOJI = {PageState.TRIGGERED: ":red_circle:", PageState.RESOLVED: ":large_green_circle:"}


def message_of(page: Page) -> PageMessage:
    """Return a page as one message with a text for every SNS protocol and every service."""
    text, json_body = plain_text(page), json_text(page)
    return PageMessage(
        key=page.key,
        urgency=page.urgency,
        subject=subject(page),
        bodies={"default": text, "email": text, "sms": sms(page), **dict.fromkeys(JSON_PROTOCOLS, json_body)},
        attributes=attributes(page),
        forms=forms_of(page),
    )


def forms_of(page: Page) -> dict[PageFormat, FormattedPage]:
    """Return a page in the format of each service that does not accept plain text."""
    return {
        PageFormat.ALARM: FormattedPage(alarm_subject(page), _json(alarm(page))),
        PageFormat.CHAT: FormattedPage(subject(page), _json(chat(page))),
        PageFormat.PAGERDUTY: FormattedPage(subject(page), _json(pagerduty(page))),
        PageFormat.SLACK: FormattedPage(subject(page), _json(slack(page))),
        PageFormat.TEAMS: FormattedPage(subject(page), _json(teams(page))),
    }


def alarm_subject(page: Page) -> str:
    """Return the subject of a page that is sent in the format of a CloudWatch alarm.

    The subject starts with the alarm state, which PagerDuty reads, and has at most 100 characters.
    """
    return f"{_alarm_state(page)}: {subject(page)}"[:100]


def alarm(page: Page) -> dict[str, Any]:
    """Return a page as a CloudWatch alarm. PagerDuty matches trigger and resolve by the alarm name."""
    return {
        "AlarmName": page.key,
        "AlarmDescription": plain_text(page),
        "NewStateValue": _alarm_state(page),
        "NewStateReason": subject(page),
        "StateChangeTime": to_text(page.occurred_at),
        "Faultbridge": document(page),
    }


def pagerduty(page: Page) -> dict[str, Any]:
    """Return a page as an event of PagerDuty's Events API v2, without the routing key.

    The channel that sends the event to PagerDuty adds the routing key.
    """
    event: dict[str, Any] = {"event_action": "trigger", "dedup_key": page.key[:MAX_DEDUP_KEY], "client": "Faultbridge"}
    if page.state is PageState.RESOLVED:
        return event | {"event_action": "resolve"}
    details = {label: value for label, value in rows(page) if value}
    links = ((page.timeline, "Timeline"), (page.runbook, "Runbook"))
    return event | {
        "payload": {
            "summary": subject(page)[:MAX_PAGERDUTY_SUMMARY],
            "source": place_text(page),
            "severity": _pagerduty_severity(page),
            "timestamp": to_text(page.occurred_at),
            "component": page.location.component or "cluster",
            "group": page.location.cluster,
            "class": page.code or page.event_type or "summary",
            "custom_details": details | {"Commands": list(page.commands), "Note": page.note},
        },
        "links": [{"href": link, "text": text} for link, text in links if link.startswith("https://")],
    }


def chat(page: Page) -> dict[str, Any]:
    """Return a page as a custom notification of Amazon Q Developer. All pages of a case share one thread."""
    location = page.location
    steps = [page.action_required, *(f"`{command}`" for command in page.commands), f"Runbook: {page.runbook}"]
    keywords = (location.cluster, page.code, location.node)
    return {
        "version": "1.0",
        "source": "custom",
        "id": f"{page.event_id or page.key}:{page.state.value}",
        "content": {
            "textType": "client-markdown",
            "title": f"{_EMOJI[page.state]} {subject(page)}"[:MAX_CHAT_TITLE],
            "description": _markdown(page)[:MAX_CHAT_TEXT],
            "nextSteps": [step[:MAX_CHAT_STEP] for step in steps],
            "keywords": [keyword[:MAX_CHAT_KEYWORD] for keyword in keywords if keyword],
        },
        "metadata": {
            "threadId": page.case_id or page.key,
            "summary": subject(page),
            "eventType": page.event_type or "Summary",
            "relatedResources": [one for one in (location.node, location.instance_id, location.serial) if one],
            "additionalContext": {label: value for label, value in rows(page) if value},
            "enableCustomActions": False,
        },
    }


def _markdown(page: Page) -> str:
    # The required action is the first of the next steps.
    lines = [f"*{label}*: {value}" for label, value in rows(page) if value and label != ACTION_LABEL]
    members = [f"\u2022 {one.node} {one.code}" for one in page.members]
    return "\n".join([*lines, *members, *([page.note] if page.note else [])])


def _pagerduty_severity(page: Page) -> str:
    if page.urgency is PageUrgency.NOTICE:
        return "warning"
    # An urgent page is at least an error, even for a less severe fault.
    return "critical" if page.severity == "fatal" else "error"


def _alarm_state(page: Page) -> str:
    return "ALARM" if page.state is PageState.TRIGGERED else "OK"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
