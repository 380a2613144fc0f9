"""The installation monitors itself: its canary is processed, and `status` reports the backlog."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.serve.ingest.canary import CLUSTER
from tests.e2e.harness.installation import Installation
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]


def waiting(installation: Installation) -> dict[str, Any]:
    """Return the backlog of `status` by kind."""
    return {row["what"]: row for row in installation.cli_json("status")["waiting"]}


def test_a_canary_passes_queue_table_and_bus(installation: Installation) -> None:
    # A canary is sent every five minutes; on a busy host a sweep, and with it a canary, may be late.
    eventually(lambda: (row := waiting(installation)["canary"])["since"] and not row["stuck"], 250)
    assert installation.cli_json("verify", "--cluster", CLUSTER)["whole"]


def test_status_reports_a_finished_sweep_and_no_overdue_work(installation: Installation) -> None:
    def nothing_stuck() -> dict[str, Any] | None:
        rows = waiting(installation)
        return None if any(row["stuck"] for row in rows.values()) else rows

    assert eventually(nothing_stuck, 60)["sweep"]["since"]
