"""Spool, cursors and sender: the disk limit, recovery after a crash, and sending after an outage."""

from __future__ import annotations

import os
import random
from datetime import timedelta
from pathlib import Path

import pytest

from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.values import replace
from faultbridge.node.agent.cursors import HALF_BYTES, Cursor, CursorFile
from faultbridge.node.agent.delivery.outbox import BLOCK_BYTES, MAX_IN_MEMORY, Outbox, Spool, SpoolFull
from faultbridge.node.agent.delivery.records import OutgoingRecord, RecordPacker, Wait
from faultbridge.node.agent.delivery.sender import MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS, SHARE_SECONDS, Sender
from faultbridge.node.agent.log_follower import Follower, Log, LogLine
from tests.agent.fakes import BOOT, NOON, FakeTransport, ManualClock


def packer(**others) -> RecordPacker:
    return RecordPacker("train-a", "gpu-1", "i-0aaaaaaaaaaaaaaa1", BOOT, **others)


def record(number: int = 1, log: str = "kmsg") -> OutgoingRecord:
    return OutgoingRecord(f"r-{number}", "train-a/gpu-1", f'{{"n":{number}}}', Cursor(log, number, {"seq": number}))


def changed(number: int) -> OutgoingRecord:
    """Changed output of a probe."""
    return replace(record(number), wait=Wait.SHORT)


def ids(batch) -> list[str]:
    return [one.record_id for _, one in batch]


def test_the_spool_never_uses_more_disk_than_its_limit(tmp_path):
    spool = Spool(tmp_path, 10 * BLOCK_BYTES)
    for number in range(10):
        spool.store(record(number))
    with pytest.raises(SpoolFull):
        spool.store(record(11))
    assert sum(1 for _ in tmp_path.iterdir()) * BLOCK_BYTES <= 10 * BLOCK_BYTES
    assert ids(spool.oldest(3, 1000)) == ["r-0", "r-1", "r-2"]


def test_the_spool_recovers_its_records_and_cursors_after_a_crash(tmp_path):
    spool = Spool(tmp_path, 1_000_000)
    for number in (1, 2, 3):
        spool.store(record(number))
    (tmp_path / "0000000000000009.tmp").write_bytes(b"half of a rec")
    (tmp_path / "notes.rec").write_bytes(b"another program")
    again = Spool(tmp_path, 1_000_000)
    assert ids(again.oldest(9, 1000)) == ["r-1", "r-2", "r-3"]
    assert again.cursors["kmsg"].position == {"seq": 3}
    again.store(record(4))
    assert ids(again.oldest(9, 1000))[-1] == "r-4"


def test_an_unreadable_file_is_removed_and_counted(tmp_path):
    spool = Spool(tmp_path, 1_000_000)
    spool.store(record(1))
    spool.store(record(2))
    (tmp_path / "0000000000000001.rec").write_bytes(b"damaged")
    assert ids(spool.oldest(9, 1000)) == ["r-2"]
    assert (spool.unreadable, spool.waiting) == (1, 1)


def test_a_cursor_survives_an_interrupted_write(tmp_path):
    cursors = CursorFile(tmp_path / "m", "kmsg")
    for number in (1, 2, 3):
        assert cursors.advance(Cursor("kmsg", number, {"seq": number}))
    whole = (tmp_path / "m").read_bytes()
    for cut in range(0, HALF_BYTES, 50):  # the third update is in the second half
        (tmp_path / "m").write_bytes(whole[: HALF_BYTES + 5] + b"?" * cut + whole[HALF_BYTES + 5 + cut :])
        assert CursorFile(tmp_path / "m", "kmsg").cursor.number in {2, 3}


def damaged_in_a_write(path: Path, cursor: Cursor) -> None:
    """Write a cursor, and damage each byte that the write changed, as a crash during the write does."""
    before = path.read_bytes()
    assert CursorFile(path, cursor.log).advance(cursor)
    path.write_bytes(bytes(old if old == new else 63 for old, new in zip(before, path.read_bytes(), strict=True)))


def test_a_cursor_survives_an_interrupted_write_after_a_gap_in_the_numbers(tmp_path):
    cursors = CursorFile(tmp_path / "m", "kmsg")
    for number in (1, 2, 4):  # the record with the third cursor was sent before a crash
        assert cursors.advance(Cursor("kmsg", number, {"seq": number}))
    damaged_in_a_write(tmp_path / "m", Cursor("kmsg", 6, {"seq": 6}))
    assert CursorFile(tmp_path / "m", "kmsg").cursor.number == 4


@pytest.mark.parametrize("short", [True, False])
def test_a_cursor_survives_an_interrupted_write_after_a_failed_one(tmp_path, monkeypatch, short):
    cursors = CursorFile(tmp_path / "m", "kmsg")
    for number in (1, 2):
        assert cursors.advance(Cursor("kmsg", number, {"seq": number}))

    def fail(descriptor: int, half: bytes, offset: int) -> int:
        if short:
            return os.write(descriptor, half[:0])
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", fail)
        assert not cursors.advance(Cursor("kmsg", 3, {"seq": 3}))
    interrupted = (tmp_path / "m").read_bytes()
    assert cursors.advance(Cursor("kmsg", 4, {"seq": 4}))
    written = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(
        bytes(old if old == new else 63 for old, new in zip(interrupted, written, strict=True))
    )
    assert CursorFile(tmp_path / "m", "kmsg").cursor.number == 2


def test_a_cursor_never_moves_backward(tmp_path):
    cursors = CursorFile(tmp_path / "m", "kmsg")
    cursors.advance(Cursor("kmsg", 5, {"seq": 5}))
    cursors.advance(Cursor("kmsg", 4, {"seq": 4}))
    assert CursorFile(tmp_path / "m", "kmsg").cursor == Cursor("kmsg", 5, {"seq": 5})


def test_a_cursor_update_does_not_grow_its_file(tmp_path):
    cursors = CursorFile(tmp_path / "m", "kmsg")
    before = (tmp_path / "m").stat().st_size
    for number in range(1, 200):
        cursors.advance(Cursor("kmsg", number, {"boot": BOOT, "seq": 10**12 + number, "booted_at": 10**13}))
    assert (tmp_path / "m").stat().st_size == before


@pytest.mark.parametrize("size", [HALF_BYTES, 5000])
def test_a_cursor_of_any_length_is_stored(tmp_path, size):
    cursors = CursorFile(tmp_path / "m", "journal")
    cursors.advance(Cursor("journal", 1, {"cursor": "short"}))
    assert cursors.advance(Cursor("journal", 2, {"cursor": "x" * size}))
    assert CursorFile(tmp_path / "m", "journal").cursor == Cursor("journal", 2, {"cursor": "x" * size})
    again = CursorFile(tmp_path / "m", "journal")
    for number in (3, 4):
        assert again.advance(Cursor("journal", number, {"cursor": "y" * size}))
    assert CursorFile(tmp_path / "m", "journal").cursor.number == 4


def test_a_cursor_that_cannot_be_stored_is_counted(tmp_path):
    cursors = CursorFile(tmp_path / "missing" / "m", "kmsg")
    assert not cursors.advance(Cursor("kmsg", 1, {"seq": 1}))
    assert cursors.failures == 1


def test_a_record_and_its_folder_are_synchronized_before_the_record_counts_as_stored(tmp_path, monkeypatch):
    steps = []

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        steps.append((path.suffix or "folder", sorted(one.suffix for one in tmp_path.iterdir())))

    monkeypatch.setattr(os, "fsync", fsync)
    Spool(tmp_path, 1_000_000).store(record(1), lambda: steps.append("stored"))
    assert steps == [(".tmp", [".tmp"]), ("folder", [".rec"]), "stored"]


def test_a_disk_that_cannot_be_synchronized_has_no_room(tmp_path, monkeypatch):
    def fail(_descriptor):
        raise OSError("I/O error")

    monkeypatch.setattr(os, "fsync", fail)
    spool = Spool(tmp_path, 1_000_000)
    with pytest.raises(SpoolFull, match="I/O error"):
        spool.store(record(1))
    assert (list(tmp_path.iterdir()), spool.waiting) == ([], 0)


def test_an_empty_file_after_a_power_failure_is_counted_and_stops_no_others(tmp_path):
    spool = Spool(tmp_path, 1_000_000)
    for number in (1, 2):
        spool.store(record(number))
    (tmp_path / "0000000000000001.rec").write_bytes(b"")
    again = Spool(tmp_path, 1_000_000)
    assert (ids(again.oldest(9, 1000)), again.unreadable) == (["r-2"], 1)


class ListLog(Log):
    """A log with the given lines."""

    name, source, max_line_bytes = "kmsg", "kernel-log", 1 << 20

    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.lines = list(lines)

    def read(self, max_bytes):
        while self.lines:
            yield LogLine("", self.lines.pop(0), {"seq": len(self.lines)})

    def close(self):
        return

    _read_chunk = _parse_line = None


def test_a_batch_that_no_message_can_hold_is_divided_and_only_a_line_that_cannot_fit_is_dropped(tmp_path):
    noise = random.Random(1)
    lines = [noise.randbytes(size // 2).hex() for size in (200_000, 600_000, 1000, 200_000)]
    outbox, clock = Outbox(Spool(tmp_path / "spool", 64_000_000)), ManualClock()
    follower = Follower(ListLog(*lines), CursorFile(tmp_path / "m", "kmsg"), outbox, packer(), clock)
    follower.poll()
    clock.advance(1)
    follower.poll()
    sent = [one for _, one in outbox.next_batch(10, 10_000_000)]
    text = b"".join(decode_message(one.text).body or b"" for one in sent).decode().splitlines()
    assert text == [lines[0], lines[2], lines[3]]
    assert outbox.dropped == 1
    assert [one.cursor is not None for one in sent] == [False] * (len(sent) - 1) + [True]


@pytest.mark.parametrize("sizes", [(1000, 600_000), (600_000,)])
def test_the_cursor_advances_past_a_last_line_that_no_message_can_hold(tmp_path, sizes):
    noise = random.Random(1)
    outbox, clock = Outbox(Spool(tmp_path / "spool", 64_000_000)), ManualClock()
    cursors = CursorFile(tmp_path / "m", "kmsg")
    log = ListLog(*(noise.randbytes(size // 2).hex() for size in sizes))
    follower = Follower(log, cursors, outbox, packer(), clock)
    follower.poll()
    clock.advance(1)
    follower.poll()
    assert outbox.dropped == 1
    assert CursorFile(tmp_path / "m", "kmsg").cursor.position == {"seq": 0}
    assert [one.cursor for _, one in outbox.next_batch(10, 10_000_000)] == [cursors.cursor] * (len(sizes) - 1)


def test_a_record_that_does_not_fit_on_disk_is_sent_from_memory_and_then_safe(tmp_path):
    outbox, safe = Outbox(Spool(tmp_path, 0)), []
    assert not outbox.store(record(1))
    assert outbox.hold_in_memory(record(1), lambda: safe.append(1))
    assert not outbox.is_safe(record(1))
    outbox.remove(name for name, _ in outbox.next_batch(10, 1000))
    assert safe == [1]
    assert outbox.is_safe(record(1))


def test_memory_holds_only_a_few_records(tmp_path):
    outbox = Outbox(Spool(tmp_path, 0))
    assert [outbox.hold_in_memory(record(number)) for number in range(MAX_IN_MEMORY + 1)] == [True] * MAX_IN_MEMORY + [
        False
    ]


def test_a_record_in_memory_is_stored_when_the_disk_has_room_but_not_while_it_is_being_sent(tmp_path):
    spool = Spool(tmp_path, 0)
    outbox = Outbox(spool)
    outbox.hold_in_memory(record(1))
    outbox.next_batch(10, 1000)
    spool._max_bytes = 1_000_000
    assert not outbox.is_safe(record(1))
    outbox.end_batch()
    assert outbox.is_safe(record(1))
    assert ids(outbox.next_batch(10, 1000)) == ["r-1"]


def test_repeatable_records_use_at_most_half_of_the_disk_limit(tmp_path):
    outbox = Outbox(Spool(tmp_path, 10 * BLOCK_BYTES))
    for number in range(10):
        outbox.store_repeatable(record(number))
    assert (outbox.waiting, outbox.dropped) == (5, 5)
    assert outbox.store(record(11))


def test_a_body_is_gzipped_and_one_above_the_queue_limit_goes_to_the_bucket():
    small = packer().pack("kernel-log", b"NVRM: Xid\n" * 5000, NOON)
    assert small is not None
    assert len(small.text) < 2000
    assert decode_message(small.text).body == b"NVRM: Xid\n" * 5000
    noise = random.Random(1).randbytes(600_000)
    large = packer(has_bucket=True).pack("nvidia-smi-xml", noise, NOON)
    assert large is not None
    assert OutgoingRecord.from_bytes(large.to_bytes()) == large
    assert decode_message(large.text).pointer == large.object_key
    assert packer().pack("nvidia-smi-xml", noise, NOON) is None


class SenderSetup:
    def __init__(self, folder) -> None:
        self.clock, self.transport = ManualClock(), FakeTransport()
        self.outbox = Outbox(Spool(folder, 64_000_000))
        self.heartbeats = 0
        self.sender = Sender(self.outbox, self.transport, self.clock, self._new_heartbeat, random=random.Random(1))

    def _new_heartbeat(self) -> OutgoingRecord:
        self.heartbeats += 1
        return OutgoingRecord(f"beat-{self.heartbeats}", "g", "{}")

    def minute(self) -> None:
        for _ in range(60):
            while self.sender.send_due():
                pass
            self.clock.advance(1)


@pytest.mark.slow
def test_half_an_hour_without_network_loses_no_record_and_limits_the_calls(tmp_path):
    setup = SenderSetup(tmp_path)
    setup.transport.down = True
    for minute in range(30):
        for number in range(30):
            setup.outbox.store(record(minute * 30 + number))
        setup.minute()
    assert setup.transport.calls <= 30 + 30 * 60 / (MAX_BACKOFF_SECONDS / 2) + 20
    setup.transport.down = False
    setup.minute()
    setup.minute()
    sent = [one.record_id for one in setup.transport.accepted if one.record_id.startswith("r-")]
    assert sent == [f"r-{number}" for number in range(900)]
    assert setup.outbox.waiting == 0


def test_a_heartbeat_is_never_stored_for_later(tmp_path):
    setup = SenderSetup(tmp_path)
    setup.transport.down = True
    setup.minute()
    setup.transport.down = False
    setup.minute()
    assert [one.record_id for one in setup.transport.accepted] == ["beat-2"]


def test_a_record_that_the_queue_refuses_for_good_is_removed(tmp_path):
    setup = SenderSetup(tmp_path)
    setup.transport.refused = {"r-1"}
    setup.outbox.store(record(1))
    setup.outbox.store(record(2))
    setup.minute()
    assert setup.outbox.waiting == 0
    assert setup.outbox.quarantined == 1
    assert [one.record_id for one in setup.transport.accepted if one.cursor] == ["r-2"]


def test_a_heartbeat_is_made_after_the_objects_of_its_call_are_written(tmp_path):
    setup, order = SenderSetup(tmp_path), []
    put, beat = setup.transport.put_object, setup.sender.new_heartbeat
    setup.transport.put_object = lambda key, body: (order.append("object"), put(key, body))
    setup.sender.new_heartbeat = lambda: (order.append("heartbeat"), beat())[1]
    setup.outbox.store(replace(record(1), object_key="k", object_body=b"x"))
    setup.sender.flush()
    setup.sender.send_due()
    assert order == ["object", "heartbeat"]


def test_a_clock_set_back_does_not_stop_the_heartbeat(tmp_path):
    setup = SenderSetup(tmp_path)
    setup.minute()
    setup.clock.wall -= timedelta(days=3650)
    setup.minute()
    assert setup.heartbeats == 2


def sharing(folder: Path) -> tuple[Outbox, Sender, FakeTransport, ManualClock]:
    """A sender without heartbeats, after it sent what an earlier run left."""
    outbox, transport, clock = Outbox(Spool(folder, 1_000_000)), FakeTransport(), ManualClock()
    sender = Sender(outbox, transport, clock, lambda: record(0), heartbeat_seconds=10**9, random=random.Random(1))
    sender.send_due()
    transport.calls = 0
    return outbox, sender, transport, clock


def test_probe_output_waits_for_others_that_share_its_call(tmp_path):
    outbox, sender, transport, clock = sharing(tmp_path)
    for number in range(1, 8):
        outbox.store_repeatable(changed(number))
        assert not sender.send_due()
        clock.advance(2)
    assert transport.calls == 0
    clock.advance(SHARE_SECONDS)
    while sender.send_due():
        pass
    assert (transport.calls, outbox.waiting) == (1, 0)


def test_a_full_batch_of_probe_output_is_sent_at_once(tmp_path):
    outbox, sender, transport, _ = sharing(tmp_path)
    for number in range(1, 12):
        outbox.store_repeatable(changed(number))
    while sender.send_due():
        pass
    assert (transport.calls, outbox.waiting) == (1, 1)


def test_a_log_line_is_sent_at_once_and_takes_the_waiting_probe_output_along(tmp_path):
    outbox, sender, transport, _ = sharing(tmp_path)
    outbox.store_repeatable(changed(1))
    assert not sender.send_due()
    outbox.store(record(2))
    while sender.send_due():
        pass
    assert (transport.calls, outbox.waiting) == (1, 0)
    outbox.store_repeatable(changed(3))
    assert not sender.send_due(), "the next probe output waits again"


def test_a_record_that_the_queue_did_not_accept_is_sent_again_after_its_pause_and_makes_no_other_record_due(tmp_path):
    outbox, sender, transport, clock = sharing(tmp_path)
    transport.throttled = {"r-1"}
    outbox.store(record(1))
    assert not sender.send_due()
    outbox.store_repeatable(changed(2))
    clock.advance(MIN_BACKOFF_SECONDS)
    assert not sender.send_due(), "the pause of the first record lasts one to two seconds"
    assert (transport.calls, outbox.waiting) == (1, 2)
    transport.throttled = set()
    clock.advance(MIN_BACKOFF_SECONDS)
    assert sender.send_due()
    assert (transport.calls, outbox.waiting) == (2, 1), "the probe output waits for others"


def test_a_heartbeat_that_was_accepted_is_not_repeated_because_a_record_of_its_call_was_not(tmp_path):
    setup = SenderSetup(tmp_path)
    setup.sender.heartbeat_seconds = 120
    setup.transport.throttled = {"r-1"}
    setup.outbox.store(record(1))
    assert setup.sender.send_due(), "the heartbeat was accepted"
    setup.transport.throttled = set()
    setup.minute()
    setup.minute()
    assert (setup.heartbeats, setup.outbox.waiting) == (1, 0)


def test_everything_is_sent_when_the_agent_ends(tmp_path):
    outbox, sender, _, _ = sharing(tmp_path)
    outbox.store_repeatable(changed(1))
    assert not sender.send_due()
    sender.flush()
    assert sender.send_due()
    assert outbox.waiting == 0
