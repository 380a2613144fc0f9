"""The cost of views in a month: requests, run time, reads and transfer, at list prices without free tiers."""

from __future__ import annotations

import gzip
import time
from dataclasses import dataclass

from tests.bench.dynamodb_meter import PRICES
from tests.console.year import Year

MONTH_MINUTES = 30 * 24 * 60
VIEWERS = 10
WORKERS = 2
"""Warm functions that serve the viewers. Each reads the placement of the nodes every fifteen minutes."""

ROSTER_MINUTES, CHANGE_MINUTES = 15, 5
"""A case closes and the stream of the cluster gets an entry every five minutes; both are then read again."""

GIGABYTES, SECONDS = 0.5, 0.1
"""Memory of the function, and the assumed run time of a page, so that limits do not depend on the host."""

API_REQUEST, GIGABYTE_OUT = 1.0e-6, 0.09
"""USD for one request to an HTTP API, and for one gigabyte to the internet."""


@dataclass(frozen=True)
class ViewCost:
    """What one view costs.

    `first_units` are those of the load that also reads the placement of the nodes; `changed_units` those of the load
    after a case closed and an entry was added.
    """

    requests: int
    units: float
    first_units: float
    changed_units: float
    sent: int
    seconds: float

    @property
    def dollars(self) -> float:
        """Return the cost of a month in which ten viewers load the view once a minute, each time anew."""
        loads, price = VIEWERS * MONTH_MINUTES, PRICES["requests"]
        rosters = WORKERS * MONTH_MINUTES / ROSTER_MINUTES * max(self.first_units - self.changed_units, 0.0)
        changes = WORKERS * MONTH_MINUTES / CHANGE_MINUTES * max(self.changed_units - self.units, 0.0)
        reads = price["read_request_unit"] * (loads * self.units + rosters + changes)
        calls = loads * (API_REQUEST + price["lambda_request"] + price["lambda_gb_second"] * GIGABYTES * self.seconds)
        return float(calls + reads + loads * self.sent / 1e9 * GIGABYTE_OUT)


def cost_of(year: Year, path: str) -> ViewCost:
    """Load a view as a new function, after changes, and as a warm function, and return what the last load cost."""
    kept = year.pages.facts.kept
    kept.forget()
    first, *_ = _load(year, path)
    kept.forget("closed", "entries")
    changed, *_ = _load(year, path)
    units, requests, seconds, sent = _load(year, path)
    return ViewCost(requests, units, first, changed, sent, seconds)


def _load(year: Year, path: str) -> tuple[float, int, float, int]:
    table = year.table
    units, requests, start = table.units, table.requests, time.process_time()
    answer = year.get(path, accept_encoding="gzip")
    assert answer.status == 200, path
    seconds = time.process_time() - start
    return table.units - units, table.requests - requests, seconds, len(gzip.compress(answer.text.encode(), 6))
