"""The seam injects faults before and after calls, and records all calls."""

from __future__ import annotations

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.storage.writes import Absent, Key, Put
from faultbridge.record.ports.messaging import BusEvent
from tests.sim.fakes import FakeBus, FakeTable, Seam, raise_once

PUT = Put({"pk": "P", "sk": "S"}, when=Absent())
KEY = Key("P", "S")


def test_a_fault_before_a_call_has_no_effect() -> None:
    table = FakeTable(seam=Seam(before=raise_once(("table.write", Transient("throttled")))))
    with pytest.raises(Transient, match="throttled"):
        table.write(PUT)
    assert table.get(KEY) is None
    table.write(PUT)
    assert table.get(KEY) is not None


def test_a_fault_after_a_call_keeps_its_effect() -> None:
    table = FakeTable(seam=Seam(after=raise_once(("table.transact", Transient("lost")))))
    with pytest.raises(Transient, match="lost"):
        table.transact([PUT], "token")
    assert table.get(KEY) is not None
    table.transact([PUT], "token")
    assert len(table.stream) == 1


def test_one_seam_records_the_calls_of_all_fakes_in_order() -> None:
    seam = Seam()
    FakeTable(seam=seam).get(KEY)
    FakeBus(seam=seam).put([BusEvent("e", "T", "{}")])
    assert [call.name for call in seam.calls] == ["table.get", "bus.put"]
    assert [call.argument for call in seam.named("table.get")] == [KEY]
