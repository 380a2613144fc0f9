"""Renders a page for the webhooks of Slack and Microsoft Teams, within their size limits.

Text from records is put into message elements that interpret no markup, so that no record can mention a channel or
forge a link. The notification text of Slack interprets markup, so it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.pager.page import Page, PageState
from faultbridge.pager.text_formats import rows, subject

MAX_HEADER = 150
MAX_SECTION = 3000
MAX_CARD = 20_000
"""Characters of a card's text. Teams accepts 28 KB, of which the frame of the card and its links need some."""
CARD_VERSION = "1.4"

Json = dict[str, Any]


def slack(page: Page) -> Json:
    """Return a page as the message for a Slack incoming webhook."""
    facts = "\n".join(f"{label}: {value}" for label, value in _facts(page))
    commands = "\n".join(page.commands)
    links = " | ".join(f"<{url}|{label}>" for label, url in _links(page).items())
    blocks = [
        {"type": "header", "text": _plain(subject(page), MAX_HEADER)},
        *({"type": "section", "text": _plain(text, MAX_SECTION)} for text in (facts, commands) if text),
    ]
    if links:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": links[:MAX_SECTION]}})
    return {"text": _escaped(subject(page)), "blocks": blocks}


def teams(page: Page) -> Json:
    """Return a page as the message for a Microsoft Teams workflow webhook: one Adaptive Card."""
    title = {"size": "Medium", "weight": "Bolder", "color": _COLORS[page.state]}
    facts = "\n".join(f"{label}: {value}" for label, value in _facts(page))
    card: Json = {
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


_COLORS: Mapping[PageState, str] = {PageState.TRIGGERED: "Attention", PageState.RESOLVED: "Good"}


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


def _plain(text: str, limit: int) -> Json:
    return {"type": "plain_text", "text": text[:limit], "emoji": False}


def _text(text: str, style: Json) -> Json:
    # Unlike TextBlock and FactSet, TextRun reads no Markdown.
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
