"""The installation watches itself: its canary comes through, and `status` says what waits and since when."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.ingest.canary import CLUSTER
from tests.e2e.installation import Installation, eventually

pytestmark = [pytest.mark.embedded, pytest.mark.slow, pytest.mark.timeout(400)]


def waiting(installation: Installation) -> dict[str, Any]:
    """What `status` says of each kind of thing that waits."""
    return {row["what"]: row for row in installation.as_json("status")["waiting"]}


def test_a_canary_comes_through_queue_table_and_bus(installation: Installation) -> None:
    # Sent in every fifth minute; only the first test of a run may have to wait for one.
    found = eventually(lambda: (row := waiting(installation)["canary"])["since"] and row, 340)
    assert not found["stuck"]
    assert found["seconds"] < 600
    assert installation.as_json("verify", "--cluster", CLUSTER)["whole"]


def test_status_says_that_the_sweep_ends_and_nothing_is_stuck(installation: Installation) -> None:
    rows = waiting(installation)
    assert not rows["sweep"]["stuck"]
    assert rows["sweep"]["seconds"] < 300
    assert [what for what, row in rows.items() if row["stuck"]] == []
