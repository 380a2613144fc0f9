"""Kernel log lines: read once per boot, counted when they repeat, with a stable time."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultbridge.decode import registry
from faultbridge.model.faults import Fault
from faultbridge.node.agent.kernel_log import READ_BYTES, KernelLog
from faultbridge.node.agent.log_follower import MAX_BATCH_BYTES, MAX_RECENT_LINES, LineBatch, LogLine
from tests.agent.fakes import BOOT, NOON, UPTIME, ManualClock

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def line(text: str = XID, head: str = "") -> LogLine:
    return LogLine(head, text, {"seq": 1})


class Device:
    """A plain file in the format of /dev/kmsg that a test writes to."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kmsg"
        self.path.touch()

    def write(self, text: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(text)


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path)


def log_of(device: Device, position=None, boot=BOOT, clock=None) -> KernelLog:
    return KernelLog(device.path, boot, position or {}, clock or ManualClock())


def test_equal_lines_within_five_seconds_become_one_line_with_a_count():
    batch = LineBatch()
    for second in range(4):
        batch.add(line(head=f"t{second} "), second)
    assert batch.take(4).decode().splitlines() == [f"t0 {XID}", f"t3 message repeated 3 times: [ {XID} ]"]


def test_the_decoder_reads_the_count_of_repeated_lines():
    batch = LineBatch()
    for second in range(4):
        batch.add(line(head=f"2026-02-03T12:00:0{second}.000Z 3,{second},1,-;"), second)
    faults = [one for one in registry.decode("kernel-log", batch.take(4)) if isinstance(one, Fault)]
    assert sum(one.count for one in faults) == 4


def test_a_new_line_is_due_at_once_and_a_repeated_line_after_five_seconds():
    batch = LineBatch()
    batch.add(line(), 0)
    assert not batch.due(0.1)
    assert batch.due(0.3)
    batch.take(0.3)
    batch.add(line(), 1)
    assert not batch.due(5)
    assert batch.due(6)


def test_an_equal_line_after_five_seconds_is_written_again():
    batch = LineBatch()
    batch.add(line(), 0)
    batch.take(0)
    batch.add(line(), 5.5)
    assert batch.take(6).decode().splitlines() == [XID]


def test_a_storm_of_different_lines_uses_bounded_memory():
    batch = LineBatch()
    for number in range(50_000):
        batch.add(line(f"{XID} {number}"), 0)
        if batch.full:
            assert len(batch.take(0)) <= MAX_BATCH_BYTES + len(XID) + 10
    assert len(batch._recent) <= MAX_RECENT_LINES


def test_a_record_is_read_once_per_boot(device):
    device.write(f"3,1,1000,-;{XID}\n SUBSYSTEM=pci\n3,2,2000,-;other\n".encode())
    assert [one.text for one in log_of(device).read(10_000)] == [XID, "other"]
    assert [one.text for one in log_of(device, {"boot": BOOT, "seq": 1}).read(10_000)] == ["other"]


def test_after_a_reboot_the_ring_buffer_is_read_from_its_start(device):
    device.write(f"3,1,1000,-;{XID}\n".encode())
    assert len(list(log_of(device, {"boot": "another", "seq": 99}).read(10_000))) == 1


def test_without_a_boot_id_the_ring_buffer_is_read_from_its_start(device):
    device.write(f"3,1,1000,-;{XID}\n".encode())
    assert len(list(log_of(device, {"boot": None, "seq": 99}, boot=None).read(10_000))) == 1


def test_an_old_line_has_its_own_time_not_the_time_of_counter_sample(device):
    hour_ago = int((UPTIME - 3600) * 1_000_000)
    device.write(f"3,1,{hour_ago},-;{XID}\n".encode())
    (found,) = log_of(device).read(10_000)
    (fault,) = registry.decode("kernel-log", (found.prefix + found.text).encode())
    assert fault.observed_at == NOON - timedelta(hours=1)


def test_a_line_that_is_read_twice_has_one_time_when_the_clocks_drift(device):
    device.write(f"3,7,5000000,-;{XID}\n".encode())
    first = next(log_of(device).read(10_000))
    later = ManualClock()
    later.wall += timedelta(milliseconds=700)
    again = next(log_of(device, {**first.position, "seq": 6}, clock=later).read(10_000))
    assert again.prefix == first.prefix


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(micros=st.integers(0, 999_999), uptime=st.integers(0, 10**13))
def test_a_line_that_is_read_twice_has_one_time_at_any_microsecond(device, micros, uptime):
    device.path.write_text(f"3,7,{uptime},-;{XID}\n3,8,{uptime},-;other\n")
    clock = ManualClock()
    clock.wall += timedelta(microseconds=micros)
    first, second = log_of(device, clock=clock).read(10_000)
    (again,) = log_of(device, {**first.position, "seq": 7}, clock=clock).read(10_000)
    assert again.prefix == second.prefix


def test_lines_after_a_clock_change_have_the_new_time(device):
    clock = ManualClock()
    log = log_of(device, clock=clock)
    clock.wall += timedelta(days=400)
    device.write(f"3,7,{int(UPTIME * 1_000_000)},-;{XID}\n".encode())
    assert next(log.read(10_000)).prefix.startswith("2027-03-10T12:00:00")


def test_lines_that_the_ring_buffer_overwrote_are_counted(device):
    log = log_of(device)
    device.write(b"3,1,1,-;a\n3,9,2,-;b\n")
    assert [one.text for one in log.read(10_000)] == ["a", "b"]
    assert log.lost_lines == 7


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\x00" * 3000, b"no header\n", b"6,1,2;three\n", b"x" * 200_000, b"\n\n\n"]
)
def test_garbage_is_skipped_and_the_next_line_is_read(device, garbage):
    log = log_of(device)
    device.write(garbage + b"\n3,5,6,-;good\n")
    found = []
    for _ in range(3):
        found += [one.text for one in log.read(1_000_000)]
    assert found == ["good"]
    assert len(log._partial) < 20_000


@pytest.mark.parametrize("rest", ["", "3,3,4,-;the rest of the line", "x" * 60_000])
def test_a_line_that_is_too_long_is_counted_once_and_its_rest_is_no_line(device, rest):
    log = log_of(device)
    device.write(b"3,1,1,-;a\n3,2,2,-;" + b"x" * (3 * READ_BYTES - 18) + rest.encode() + b"\n3,5,6,-;good\n")
    assert [one.text for one in log.read(1_000_000)] == ["a", "good"]
    assert log.lost_lines == 1 + 2, "the sequence numbers 3 and 4 are missing"


def test_the_first_line_after_a_log_that_ended_within_a_long_line_is_read(device):
    log = log_of(device)
    device.write(b"x" * 3 * READ_BYTES)
    assert list(log.read(1_000_000)) == []
    device.write(b"3,5,6,-;good\n")
    assert [one.text for one in log.read(1_000_000)] == ["good"]
    assert log.lost_lines == 1


def test_a_missing_device_is_opened_when_it_appears(tmp_path):
    log = KernelLog(tmp_path / "kmsg", BOOT, {}, ManualClock())
    assert list(log.read(10_000)) == []
    (tmp_path / "kmsg").write_bytes(b"3,5,6,-;good\n")
    assert [one.text for one in log.read(10_000)] == ["good"]


def test_a_line_from_user_space_keeps_its_facility(device):
    device.write(f"11,1,1000,-;{XID}\n12,2,2000,-;{XID}\n".encode())
    body = "\n".join(one.prefix + one.text for one in log_of(device).read(10_000)).encode()
    faults = [one for one in registry.decode("kernel-log", body) if isinstance(one, Fault)]
    assert faults
    assert all(one.attributes.get("facility") == "user" for one in faults)


def test_counter_sample_never_blocks(tmp_path):
    os.mkfifo(tmp_path / "kmsg")
    assert list(KernelLog(tmp_path / "kmsg", BOOT, {}, ManualClock()).read(10_000)) == []
