"""The invariant about the order of deliveries compares times in whole milliseconds, as the product does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.faults import Snapshot
from faultbridge.domain.records import RawRecord
from faultbridge.ingest.record_reader import Delivery, RecordPart
from faultbridge.simulation.fakes import START
from faultbridge.simulation.invariants import records


def snapshot_after(microseconds: int) -> RecordPart:
    at = START + timedelta(microseconds=microseconds)
    body = f"snapshot {microseconds}".encode()
    record = RawRecord("r-1", "nvidia-smi-xml", "watch-b", "worker-1", body, at, at)
    return RecordPart(Delivery("m-1", "", at), record, None, (Snapshot("nvidia-smi-xml", {}, observed_at=at),))


@pytest.mark.parametrize(("microseconds", "undefined"), [(54, True), (1_000, False)])
def test_the_order_of_two_snapshots_of_one_millisecond_is_undefined(microseconds: int, undefined: bool) -> None:
    assert records._has_ties([snapshot_after(0), snapshot_after(microseconds)]) is undefined
