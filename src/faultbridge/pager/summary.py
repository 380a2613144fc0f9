"""Summary: one page that speaks for many cases of a cluster which had none of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from faultbridge.pager.open_pages import LivePage
from faultbridge.pager.page import Links, Member, Page, PageState, Place
from faultbridge.ports import PageUrgency

MAX_NAMED = 100
"""Members that one summary names: with a body for each way to a program it stays far below the 256 KB of SNS."""

FIRST_NAMED = 10
MAX_NAME = 63


def summarize(
    cluster: str, urgency: PageUrgency, named: Sequence[LivePage], live: int, now: datetime, links: Links
) -> Page:
    """Name some cases, of which so many are live without a page of their own."""
    nodes = [one.page.place.node or one.page.key for one in named]
    more = len(nodes) - FIRST_NAMED
    told = ", ".join(nodes[:FIRST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Page(
        key=f"{cluster}:summary:{urgency.value}",
        state=PageState.TRIGGERED,
        urgency=urgency,
        headline=f"and {len(named)} more, {live} cases are live without a page of their own",
        broke=told,
        place=Place(cluster),
        doing="Each case goes on by itself as far as it can.",
        reader="Look for one cause behind many cases before you look at each of them.",
        commands=(f"faultbridge case list --cluster {cluster}", f"faultbridge timeline --cluster {cluster} --since 1h"),
        runbook=links.runbook("many-pages"),
        timeline=links.timeline(cluster),
        event_type="",
        event_id="",
        at=now,
        since=min((one.page.at for one in named), default=None),
        members=tuple(_member(one.page) for one in named),
    )


def _member(page: Page) -> Member:
    return Member(page.key, (page.place.node or "")[:MAX_NAME], page.code or "")


def ended(summary: Page, now: datetime) -> Page:
    """Say that the last of the cases has ended."""
    return replace(
        summary,
        state=PageState.RESOLVED,
        headline="every case without a page of its own has ended",
        broke="",
        doing="Done.",
        reader="Nothing.",
        at=now,
        members=(),
    )
