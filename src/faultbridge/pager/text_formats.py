"""Bodies: one page in the words and lengths of each way to a person."""

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
MACHINE_READ = ("sqs", "lambda", "http", "https", "firehose", "email-json")
"""Protocols of SNS behind which a program reads."""


def attributes(page: Page) -> dict[str, str]:
    """Return what filter policies may match on; empty ones are left out."""
    every = {
        "severity": page.severity,
        "cluster": page.place.cluster,
        "node": page.place.node,
        "case_id": page.case_id,
        "urgency": page.urgency.value,
        "event_type": page.event_type,
        "state": page.state.value,
        "code": page.code,
        "dedup_key": page.key,
    }
    return {name: value for name, value in every.items() if value}


def subject(page: Page) -> str:
    """Return one line of at most 100 printable ASCII characters."""
    about = f" ({page.code})" if page.code else ""
    line = f"[{_label(page)}] {_where(page)}: {page.headline}"
    return _cut(_ascii(line), MAX_SUBJECT - len(about)) + about.encode("ascii", "replace").decode()


def sms(page: Page) -> str:
    """Return at most 140 ASCII characters: who, what, and the command to look at it with."""
    look = page.commands[-1] if page.commands else ""
    who = f"{_where(page)} {page.code}" if page.code else _where(page)
    line = _ascii(f"{_label(page).upper()} {who}: {page.headline}")
    room = MAX_SMS - len(look) - 2
    return f"{_cut(line, room)}. {_ascii(look)}" if room > MAX_SMS // 3 else _cut(line, MAX_SMS)


def plain_text(page: Page) -> str:
    """Return the page as a person reads it in a mail."""
    filled = [(label, value) for label, value in rows(page) if value]
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
    """Return the page as a program reads it; version 1 of its shape."""
    return {
        "version": 1,
        "dedup_key": page.key,
        **{name: value for name, value in asdict(page).items() if name != "key"},
        "at": to_text(page.at),
        "since": _instant(page.since),
        "subject": subject(page),
    }


def json_text(page: Page) -> str:
    """Return the page's document as text."""
    return json.dumps(document(page), ensure_ascii=False, indent=2, sort_keys=True)


def rows(page: Page) -> Iterator[tuple[str, str]]:
    """Yield what a page says, by its label; some of it is empty."""
    place = page.place
    severity = f"{page.severity}: " if page.severity else ""
    yield "What broke", f"{severity}{page.broke}" if page.broke else ""
    yield "Cluster", place.cluster
    yield "Node", place.node or ""
    yield "Instance", place.instance_id or ""
    yield "Part", place.component
    yield "Serial", place.serial or ""
    yield "Since", _instant(page.since) or ""
    yield "Being done", page.doing
    yield "You must", page.reader
    yield "Phases", ", ".join(f"{name} {duration_text(length)}" for name, length in in_phase_order(page.phases))
    yield "Case", page.case_id or ""
    yield "Timeline", page.timeline
    yield "Runbook", page.runbook


def _label(page: Page) -> str:
    return page.state.value if page.state is PageState.RESOLVED else page.urgency.value


def _where(page: Page) -> str:
    return f"{page.place.cluster}/{page.place.node}" if page.place.node else page.place.cluster


def _instant(at: datetime | None) -> str | None:
    return to_text(at) if at else None


def _ascii(text: str) -> str:
    return " ".join(text.encode("ascii", "replace").decode().split())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."
