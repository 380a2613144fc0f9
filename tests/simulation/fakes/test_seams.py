"""The fakes break where and when they are told to."""

from __future__ import annotations

import pytest

from faultbridge.errors import Transient
from faultbridge.ports import BusEvent
from faultbridge.simulation.fakes import FakeBus, FakeTable, Seam, breaking
from faultbridge.storage.writes import Absent, Key, Put

PUT = Put({"pk": "P", "sk": "S"}, when=Absent())
KEY = Key("P", "S")


def test_what_breaks_before_a_call_leaves_no_trace() -> None:
    table = FakeTable(seam=Seam(before=breaking(("table.write", Transient("throttled")))))
    with pytest.raises(Transient, match="throttled"):
        table.write(PUT)
    assert table.get(KEY) is None
    table.write(PUT)
    assert table.get(KEY) is not None


def test_what_breaks_after_a_call_has_happened_unseen() -> None:
    table = FakeTable(seam=Seam(after=breaking(("table.transact", Transient("lost")))))
    with pytest.raises(Transient, match="lost"):
        table.transact([PUT], "token")
    assert table.get(KEY) is not None
    table.transact([PUT], "token")
    assert len(table.stream) == 1


def test_one_seam_counts_the_calls_of_all_fakes_in_their_order() -> None:
    seam = Seam()
    FakeTable(seam=seam).get(KEY)
    FakeBus(seam=seam).put([BusEvent("e", "T", "{}")])
    assert [call.name for call in seam.calls] == ["table.get", "bus.put"]
    assert [call.argument for call in seam.named("table.get")] == [KEY]
