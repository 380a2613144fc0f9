"""The installation monitors itself: its canary is processed, and `status` reports the backlog."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.ingest.canary import CLUSTER
from tests.e2e.harness.installation import Installation
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def waiting(installation: Installation) -> dict[str, Any]:
    """Return the backlog of `status` by kind."""
    return {row["what"]: row for row in installation.cli_json("status")["waiting"]}


def test_a_canary_passes_queue_table_and_bus(installation: Installation) -> None:
    # A canary is sent every five minutes; only the first test of a run may wait for one.
    found = eventually(lambda: (row := waiting(installation)["canary"])["since"] and row, 340)
    assert not found["stuck"]
    assert found["seconds"] < 600
    assert installation.cli_json("verify", "--cluster", CLUSTER)["whole"]


def test_status_reports_a_finished_sweep_and_no_overdue_work(installation: Installation) -> None:
    rows = waiting(installation)
    assert not rows["sweep"]["stuck"]
    assert rows["sweep"]["seconds"] < 300
    assert [what for what, row in rows.items() if row["stuck"]] == []
