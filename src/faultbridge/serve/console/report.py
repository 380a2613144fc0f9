"""Reports: a page as one HTML file that needs no network; its policy allows only its style and script."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from faultbridge.model.errors import UnknownName
from faultbridge.serve.console.facts import CaseDocuments, Facts, Window
from faultbridge.serve.console.html import Links, render
from faultbridge.serve.orders import CASE_ID
from faultbridge.serve.presentation.case_page import CasePage, case_page
from faultbridge.serve.presentation.cluster_page import cluster_page
from faultbridge.serve.presentation.history import Span

NO_LINKS = Links(None)


class Reports(Struct, frozen=True):
    """Builds report files as HTML text."""

    facts: Facts

    def case(self, cluster: str, case_id: str) -> str:
        """Return the report of a case; an unknown id raises `UnknownName`."""
        if not CASE_ID.fullmatch(case_id):
            raise UnknownName("case", case_id)
        return _file("case.html", self.facts.clock.now(), page=self._case(self.facts.case(cluster, case_id)))

    def cluster(self, cluster: str, window: Window, limit: int) -> str:
        """Return the report of a cluster: its page, at most `limit` entries, and at most 20 of their cases."""
        facts, cases = self.facts.report(cluster, window, limit)
        now = self.facts.clock.now()
        times = [one.at for one in facts.entries]
        start, end = window[0] or min(times, default=now), min(window[1] or now, now)
        page = cluster_page(facts, Span(start, end, running=window[1] is None))
        return _file("report.html", now, page=page, cases=[self._case(one) for one in cases], since=start, until=end)

    def _case(self, found: CaseDocuments) -> CasePage:
        return case_page(found.facts, found.pages, self.facts.clock.now(), older=found.older)


def _file(template: str, now: datetime, **values: object) -> str:
    given = {"since": None, "until": None, "presets": (), "refresh": 0, "version": "", **values}
    return render(template, NO_LINKS, report=True, written=now, **given)
