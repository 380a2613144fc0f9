"""Renders a page for pager services and chat applications, within the size limits of each.

Formats: a CloudWatch alarm for PagerDuty's Amazon CloudWatch integration behind SNS, an event of PagerDuty's Events API
v2, and a custom notification of Amazon Q Developer in chat applications.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import to_builtins

from faultbridge.model.times import to_text
from faultbridge.record.entry_text import duration_text, in_phase_order
from faultbridge.record.ports.messaging import FormattedPage, PageFormat, PageMessage, PageUrgency
from faultbridge.serve.pager.page import Button, Page, PageState

MAX_SUBJECT = 100
MAX_SMS = 140
JSON_PROTOCOLS = ("sqs", "lambda", "http", "https", "firehose", "email-json")
"""SNS protocols that receive JSON instead of text."""

ACTION_LABEL = "Action required"


def attributes(page: Page) -> dict[str, str]:
    """Return the SNS message attributes of a page, for filter policies. Empty attributes are left out."""
    values = {
        "severity": page.severity,
        "cluster": page.location.cluster,
        "node": page.location.node,
        "case_id": page.case_id,
        "urgency": page.urgency.value,
        "event_type": page.event_type,
        "state": page.state.value,
        "code": page.code,
        "dedup_key": page.key,
    }
    return {name: value for name, value in values.items() if value}


def subject(page: Page) -> str:
    """Return the subject of a page: one line of at most 100 printable ASCII characters."""
    code = f" ({page.code})" if page.code else ""
    line = f"[{_label(page)}] {place_text(page)}: {page.headline}"
    return shorten(_ascii(line), MAX_SUBJECT - len(code)) + code.encode("ascii", "replace").decode()


def sms(page: Page) -> str:
    """Return the SMS of a page, at most 140 ASCII characters.

    The SMS contains the urgency (or `RESOLVED`), the cluster and node, the fault code, the headline, and a command if
    there is space for the command.
    """
    command = page.commands[0] if page.commands else ""
    place = f"{place_text(page)} {page.code}" if page.code else place_text(page)
    line = _ascii(f"{_label(page).upper()} {place}: {page.headline}")
    room = MAX_SMS - len(command) - 2
    return f"{shorten(line, room)}. {_ascii(command)}" if room > MAX_SMS // 3 else shorten(line, MAX_SMS)


def plain_text(page: Page) -> str:
    """Return the email text of a page."""
    filled = [(f"{label}:", value) for label, value in rows(page) if value]
    width = max(len(label) for label, _ in filled) + 2
    lines = [f"{page.headline[:1].upper()}{page.headline[1:]}.", ""]
    lines += [f"{label:<{width}}{value}" for label, value in filled]
    lines += ["", *(f"  {command}" for command in page.commands), ""]
    if page.members:
        lines += [*(f"  {one.node:<{width}}{one.code}  {one.key}" for one in page.members), ""]
    lines.append(f"Key {page.key}{f', event {page.event_id}' if page.event_id else ''}.")
    if page.note:
        lines.append(page.note)
    return "\n".join(lines) + "\n"


def document(page: Page) -> object:
    """Return the page as a JSON object for programs. The format has version 1."""
    return {
        "version": 1,
        "dedup_key": page.key,
        **{name: value for name, value in to_builtins(page).items() if name not in {"key", "buttons"}},
        "occurred_at": to_text(page.occurred_at),
        "since": _time_text(page.since),
        "subject": subject(page),
    }


def json_text(page: Page) -> str:
    """Return the page as JSON text for programs."""
    return json.dumps(document(page), ensure_ascii=False, indent=2, sort_keys=True)


def rows(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the labels and values of a page in the order of display. Values may be empty."""
    location = page.location
    yield _fault_row(page)
    yield "Cluster", location.cluster
    yield "Node", location.node or ""
    yield "Instance", location.instance_id or ""
    yield "Component", location.component
    yield "Serial", location.serial or ""
    yield "Since", _time_text(page.since) or ""
    yield "What happened", page.what
    yield "What Faultbridge does", page.system_action
    yield ACTION_LABEL, page.action_required
    yield "Phases", ", ".join(f"{name} {duration_text(length)}" for name, length in in_phase_order(page.phases))
    yield "Case", page.case_id or ""
    yield "Timeline", page.timeline
    yield "Runbook", page.runbook


def _fault_row(page: Page) -> tuple[str, str]:
    if page.code and page.severity:
        return "Fault", f"{page.severity}: {page.fault}"
    label = "Nodes" if page.members else "Fault" if page.code else "Reason"
    return label, page.fault


def place_text(page: Page) -> str:
    """Return the place of a fault as `cluster/node`, or the cluster alone."""
    location = page.location
    return f"{location.cluster}/{location.node}" if location.node else location.cluster


def _label(page: Page) -> str:
    return page.urgency.value if page.state is PageState.TRIGGERED else page.state.value


def _time_text(at: datetime | None) -> str | None:
    return to_text(at) if at else None


def _ascii(text: str) -> str:
    return " ".join(text.encode("ascii", "replace").decode().split())


def shorten(text: str, max_length: int) -> str:
    """Return the text; if it is longer than `max_length` characters, cut it and end it with three dots."""
    return text if len(text) <= max_length else text[: max_length - 3].rstrip() + "..."


# Renders a page for the webhooks of Slack and Microsoft Teams, within their size limits.
#
# Text from records is put into message elements that interpret no markup, so that no record can mention a channel or
# forge a link. The notification text of Slack interprets markup, so it is escaped.

MAX_HEADER = 150
MAX_LABEL, MAX_CONFIRM, MAX_CONFIRM_LABEL = 75, 300, 30
MAX_SECTION = 3000
MAX_CARD = 20_000
"""Characters of a card's text. Teams accepts 28 KB, of which the frame of the card and its links need some."""
CARD_VERSION = "1.4"


def slack(page: Page) -> object:
    """Return a page as the message for a Slack incoming webhook."""
    facts = "\n".join(f"{label}: {value}" for label, value in _facts(page))
    commands = "\n".join(page.commands)
    links = " | ".join(f"<{url}|{label}>" for label, url in _links(page).items())
    blocks: list[object] = [
        {"type": "header", "text": _plain(subject(page), MAX_HEADER)},
        *({"type": "section", "text": _plain(text, MAX_SECTION)} for text in (facts, commands) if text),
    ]
    if links:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": links[:MAX_SECTION]}})
    if page.buttons:
        blocks.append({"type": "actions", "block_id": "orders", "elements": [_button(one) for one in page.buttons]})
    return {"text": _escaped(subject(page)), "blocks": blocks}


def _button(one: Button) -> object:
    confirm = {
        "title": _plain(one.label, MAX_LABEL),
        "text": _plain(one.confirm, MAX_CONFIRM),
        "confirm": _plain(one.label, MAX_CONFIRM_LABEL),
        "deny": _plain("Cancel", MAX_CONFIRM_LABEL),
    }
    style = {"approve": {"style": "primary"}, "deny": {"style": "danger"}}.get(one.order, {})
    text = _plain(one.label, MAX_LABEL)
    return {"type": "button", "action_id": one.order, "text": text, "value": one.value, "confirm": confirm, **style}


def teams(page: Page) -> object:
    """Return a page as the message for a Microsoft Teams workflow webhook: one Adaptive Card."""
    title = {"size": "Medium", "weight": "Bolder", "color": _COLORS[page.state]}
    facts = "\n".join(f"{label}: {value}" for label, value in _facts(page))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": CARD_VERSION,
        "msteams": {"width": "Full"},
        "body": [
            _text(subject(page), title),
            *(_text(line, {}) for line in facts[:MAX_CARD].split("\n")),
            *(_text(command, {"fontType": "Monospace"}) for command in page.commands),
        ],
        "actions": [{"type": "Action.OpenUrl", "title": label, "url": url} for label, url in _links(page).items()],
    }
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [content]}


_COLORS: Mapping[PageState, str] = {
    PageState.TRIGGERED: "Attention",
    PageState.ACKNOWLEDGED: "Warning",
    PageState.RESOLVED: "Good",
}


def _facts(page: Page) -> Iterator[tuple[str, str]]:
    links = _links(page).values()
    yield from ((label, value) for label, value in rows(page) if value and value not in links)
    yield from (("Node", f"{one.node} {one.code}") for one in page.members)
    if page.note:
        yield "Note", page.note


def _links(page: Page) -> dict[str, str]:
    """Return the links of a page that open in a browser, by label. File paths are left out."""
    links = {"Timeline": page.timeline, "Runbook": page.runbook}
    return {label: url for label, url in links.items() if url.startswith("https://")}


def _plain(text: str, limit: int) -> object:
    return {"type": "plain_text", "text": text[:limit], "emoji": False}


def _text(text: str, style: Mapping[str, str]) -> object:
    # Unlike TextBlock and FactSet, TextRun reads no Markdown.
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


MAX_DEDUP_KEY = 255
MAX_PAGERDUTY_SUMMARY = 1024
MAX_CHAT_TITLE, MAX_CHAT_TEXT, MAX_CHAT_STEP, MAX_CHAT_KEYWORD = 250, 8000, 350, 75

_EVENT_ACTIONS = {
    PageState.TRIGGERED: "trigger",
    PageState.ACKNOWLEDGED: "acknowledge",
    PageState.RESOLVED: "resolve",
}
_EMOJI = {
    PageState.TRIGGERED: ":red_circle:",
    PageState.ACKNOWLEDGED: ":large_yellow_circle:",
    PageState.RESOLVED: ":large_green_circle:",
}


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
        # PagerDuty reads the state of the alarm from the subject, which has at most 100 characters.
        PageFormat.ALARM: FormattedPage(f"{_alarm_state(page)}: {subject(page)}"[:100], _json(alarm(page))),
        PageFormat.CHAT: FormattedPage(subject(page), _json(chat(page))),
        PageFormat.PAGERDUTY: FormattedPage(subject(page), _json(pagerduty(page))),
        PageFormat.SLACK: FormattedPage(subject(page), _json(slack(page))),
        PageFormat.TEAMS: FormattedPage(subject(page), _json(teams(page))),
    }


def alarm(page: Page) -> object:
    """Return a page as a CloudWatch alarm. PagerDuty matches trigger and resolve by the alarm name."""
    return {
        "AlarmName": page.key,
        "AlarmDescription": plain_text(page),
        "NewStateValue": _alarm_state(page),
        "NewStateReason": subject(page),
        "StateChangeTime": to_text(page.occurred_at),
        "Faultbridge": document(page),
    }


def pagerduty(page: Page) -> object:
    """Return a page as an event of PagerDuty's Events API v2, without the routing key.

    The channel that sends the event to PagerDuty adds the routing key.
    """
    event = {"event_action": _EVENT_ACTIONS[page.state], "dedup_key": page.key[:MAX_DEDUP_KEY], "client": "Faultbridge"}
    if page.state is not PageState.TRIGGERED:
        return event
    details = {label: value for label, value in rows(page) if value}
    return {
        **event,
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
        "links": [{"href": link, "text": text} for text, link in _links(page).items()],
    }


def chat(page: Page) -> object:
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
    return "OK" if page.state is PageState.RESOLVED else "ALARM"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
