"""Helpers for pager tests: a pager over fakes, and the pages that events send."""

from __future__ import annotations

from typing import Any

from faultbridge.record.ports.messaging import PageMessage
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.pager.page import PagerSettings
from faultbridge.serve.pager.page_deduplication import PageOutcome
from tests.sim.fakes import FakePager, FakeTable, ManualClock


def new_paging(settings: PagerSettings | None = None) -> tuple[Paging, FakePager, FakeTable]:
    """Return a pager over an empty table."""
    clock = ManualClock()
    table, pager = FakeTable(clock), FakePager()
    return Paging(table, pager, clock, settings or PagerSettings()), pager, table


def sent(*events: dict[str, Any], settings: PagerSettings | None = None) -> list[PageMessage]:
    """Return the pages that events send."""
    paging, pager, _ = new_paging(settings)
    for event in events:
        paging.deliver(event)
    return pager.sent


def outcomes(paging: Paging, event: dict[str, Any]) -> list[PageOutcome]:
    """Return the outcome of the urgent page about a case."""
    return [one.outcome for one in paging.deliver(event) if one.key.endswith(":escalated")]


def states(pages: list[PageMessage]) -> list[str]:
    """Return the state of each page."""
    return [page.attributes["state"] for page in pages]
