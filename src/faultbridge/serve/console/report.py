"""Reports: a page as one HTML file that needs no network; its policy allows only its style and script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.decide.answers import words
from faultbridge.decide.entry_builder import total_gpu_time
from faultbridge.model.errors import UnknownName
from faultbridge.model.event_data import NoteData
from faultbridge.serve.console.facts import Facts, Window
from faultbridge.serve.console.html import Links, render
from faultbridge.serve.orders import CASE_ID
from faultbridge.serve.presentation.case_answers import CaseFacts, short_name
from faultbridge.serve.presentation.case_page import CasePage, case_page
from faultbridge.serve.presentation.cluster_page import cluster_page
from faultbridge.serve.presentation.entry_rows import Entries, entries_with
from faultbridge.serve.presentation.history import Span

NO_LINKS = Links(None)
MAX_MODES = 5


class Order(Struct, frozen=True):
    """What a person did by hand: who, when, to which node, and what."""

    at: datetime
    who: str
    node: str
    text: str


class Summary(Struct, frozen=True):
    """The summary of a report; a figure that is unknown is None."""

    outcomes: tuple[tuple[str, int], ...]
    gpu_hours_lost: float | None
    modes: tuple[tuple[str, int], ...]
    orders: tuple[Order, ...]


def summary(cases: Sequence[CasePage], entries: Entries) -> Summary:
    """Return the summary of the cases and entries of a report."""
    lost = total_gpu_time(one.case.gpu_time_lost_ms for one in cases)
    return Summary(
        tuple(Counter(words(one.case.resolution or one.case.status) for one in cases).most_common()),
        None if lost is None else lost / 3_600_000,
        tuple(Counter(one.case.failure_mode for one in cases).most_common(MAX_MODES)),
        tuple(
            Order(one.at, short_name(one.data.operator), one.metadata.node or "", one.data.text)
            for one in entries_with(entries, NoteData)
            if one.data.operator
        ),
    )


class Reports(Struct, frozen=True):
    """Builds report files as HTML text."""

    facts: Facts

    def case(self, cluster: str, case_id: str) -> str:
        """Return the report of a case; an unknown id raises `UnknownName`."""
        if not CASE_ID.fullmatch(case_id):
            raise UnknownName("case", case_id)
        return _file(
            "case.html",
            self.facts.clock.now(),
            page=case_page(self.facts.case(cluster, case_id), self.facts.clock.now()),
        )

    def cluster(self, cluster: str, window: Window, limit: int) -> str:
        """Return the report of a cluster: a summary, at most 20 cases, and at most `limit` entries, all folded."""
        facts, found = self.facts.report(cluster, window, limit)
        now = self.facts.clock.now()
        times = [one.at for one in facts.entries]
        start, end = window[0] or min(times, default=now), min(window[1] or now, now)
        page, cases = cluster_page(facts, Span(start, end, running=window[1] is None)), self._cases(found)
        return _file(
            "report.html", now, page=page, cases=cases, since=start, until=end, summary=summary(cases, facts.entries)
        )

    def _cases(self, found: Iterable[CaseFacts]) -> tuple[CasePage, ...]:
        return tuple(case_page(one, self.facts.clock.now()) for one in found)


def _file(template: str, now: datetime, **values: object) -> str:
    return render(template, NO_LINKS, **{"report": True, "written": now, **values})
