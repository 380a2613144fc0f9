"""Renders a page as subject, SMS, email text, SNS attributes and JSON, within the limits of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from faultbridge.domain.times import to_text
from faultbridge.ledger.entry_text import duration_text, in_phase_order
from faultbridge.pager.page import Page, PageState

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
    command = page.commands[-1] if page.commands else ""
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


def document(page: Page) -> dict[str, Any]:
    """Return the page as a JSON object for programs. The format has version 1."""
    return {
        "version": 1,
        "dedup_key": page.key,
        **{name: value for name, value in asdict(page).items() if name != "key"},
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
    return page.state.value if page.state is PageState.RESOLVED else page.urgency.value


def _time_text(at: datetime | None) -> str | None:
    return to_text(at) if at else None


def _ascii(text: str) -> str:
    return " ".join(text.encode("ascii", "replace").decode().split())


def shorten(text: str, max_length: int) -> str:
    """Return the text; if it is longer than `max_length` characters, cut it and end it with three dots."""
    return text if len(text) <= max_length else text[: max_length - 3].rstrip() + "..."
