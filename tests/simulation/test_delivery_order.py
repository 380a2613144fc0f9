"""The invariant about the order of deliveries: times in whole milliseconds, and snapshots whose order matters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultbridge.model.faults import Fault, Snapshot
from faultbridge.model.records import Outcome, RawRecord
from faultbridge.serve.ingest.outcomes import OUTCOMES
from faultbridge.serve.ingest.record_reader import Delivery, RecordPart
from tests.builders import fault
from tests.sim.fakes import START
from tests.sim.invariants import records
from tests.sim.invariants.view import SystemView


def snapshot(at: datetime, body: bytes, *faults: Fault, record_id: str = "r-1") -> RecordPart:
    record = RawRecord(record_id, "nvidia-smi-xml", "watch-b", "worker-1", body, at, at)
    found = Snapshot("nvidia-smi-xml", {}, faults, observed_at=at)
    return RecordPart(Delivery("m-1", "", at), record, None, (found,))


def snapshot_after(microseconds: int) -> RecordPart:
    return snapshot(START + timedelta(microseconds=microseconds), f"snapshot {microseconds}".encode())


def view_of(outcomes: Mapping[str, Outcome]) -> SystemView:
    """Return a view with only the receipts of some records."""
    line: dict[str, Any] = {"kind": OUTCOMES, "records": {one.value: name for name, one in outcomes.items()}}
    return cast("SystemView", SimpleNamespace(ports=SimpleNamespace(receipts=SimpleNamespace(lines=[(START, line)]))))


@pytest.mark.parametrize(("microseconds", "undefined"), [(54, True), (1_000, False)])
def test_the_order_of_two_snapshots_of_one_millisecond_is_undefined(microseconds: int, undefined: bool) -> None:
    assert records._has_ties([snapshot_after(0), snapshot_after(microseconds)]) is undefined


def test_a_healthy_snapshot_and_its_duplicates_matter_only_if_the_table_stores_none_of_them() -> None:
    clean, again, stored = (
        snapshot(START + timedelta(seconds=29), b"healthy", record_id=name)
        for name in ("r-clean", "r-again", "r-stored")
    )
    faulty = snapshot(START, b"faulty", fault("smi.row_remap_pending"), record_id="r-faulty")
    outcomes = {"r-clean": Outcome.CLEAN, "r-again": Outcome.DUPLICATE, "r-faulty": Outcome.RECORDED}
    view = view_of(outcomes | {"r-stored": Outcome.RECORDED})
    assert records._unstored_snapshots(view, [faulty, clean, again, stored]) == {"r-clean", "r-again"}


def test_a_healthy_snapshot_more_than_ten_minutes_newer_than_a_faulty_one_is_replayed() -> None:
    faulty = snapshot(START, b"faulty", fault("smi.row_remap_pending"), record_id="r-faulty")
    clean = snapshot(START + timedelta(minutes=10, seconds=1), b"healthy", record_id="r-clean")
    view = view_of({"r-clean": Outcome.CLEAN, "r-faulty": Outcome.RECORDED})
    assert records._unstored_snapshots(view, [faulty, clean]) == set()
