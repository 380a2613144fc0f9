"""What is kept: within its cap, whole after a crash, and sent when the network is back."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from faultbridge.agent.marks import HALF_BYTES, MarkFile
from faultbridge.agent.outbox import MAX_LENT, Outbox
from faultbridge.agent.outgoing import Mark, Outgoing, Packer
from faultbridge.agent.sender import MAX_PAUSE, Sender
from faultbridge.agent.spool import BLOCK_BYTES, Spool, SpoolFull
from faultbridge.storage.wire.message import decode_message
from tests.agent.fakes import BOOT, NOON, FakeQueue, MovedClock


def packer(**others) -> Packer:
    return Packer("train-a", "gpu-1", "i-0aaaaaaaaaaaaaaa1", BOOT, **others)


def record(number: int = 1, log: str = "kmsg") -> Outgoing:
    return Outgoing(f"r-{number}", "train-a/gpu-1", f'{{"n":{number}}}', Mark(log, number, {"seq": number}))


def ids(taken) -> list[str]:
    return [one.record_id for _, one in taken]


def test_a_spool_never_takes_more_disk_than_its_cap(tmp_path):
    spool = Spool(tmp_path, 10 * BLOCK_BYTES)
    for number in range(10):
        spool.put(record(number))
    with pytest.raises(SpoolFull):
        spool.put(record(11))
    assert sum(1 for _ in tmp_path.iterdir()) * BLOCK_BYTES <= 10 * BLOCK_BYTES
    assert ids(spool.oldest(3, 1000)) == ["r-0", "r-1", "r-2"]


def test_a_spool_finds_after_a_crash_what_it_had_and_how_far_each_log_was(tmp_path):
    spool = Spool(tmp_path, 1_000_000)
    for number in (1, 2, 3):
        spool.put(record(number))
    (tmp_path / "0000000000000009.tmp").write_bytes(b"half of a rec")
    (tmp_path / "notes.rec").write_bytes(b"somebody else's")
    again = Spool(tmp_path, 1_000_000)
    assert ids(again.oldest(9, 1000)) == ["r-1", "r-2", "r-3"]
    assert again.marks["kmsg"].value == {"seq": 3}
    again.put(record(4))
    assert ids(again.oldest(9, 1000))[-1] == "r-4"


def test_a_file_that_rotted_is_let_go_and_counted(tmp_path):
    spool = Spool(tmp_path, 1_000_000)
    spool.put(record(1))
    spool.put(record(2))
    (tmp_path / "0000000000000001.rec").write_bytes(b"rot")
    assert ids(spool.oldest(9, 1000)) == ["r-2"]
    assert (spool.unreadable, spool.waiting) == (1, 1)


def test_a_mark_survives_a_write_that_was_cut(tmp_path):
    marks = MarkFile(tmp_path / "m", "kmsg")
    for number in (1, 2, 3):
        assert marks.advance(Mark("kmsg", number, {"seq": number}))
    whole = (tmp_path / "m").read_bytes()
    for cut in range(0, HALF_BYTES, 50):  # the third went into the second half
        (tmp_path / "m").write_bytes(whole[: HALF_BYTES + 5] + b"?" * cut + whole[HALF_BYTES + 5 + cut :])
        assert MarkFile(tmp_path / "m", "kmsg").mark.n in {2, 3}


def test_a_mark_never_goes_back(tmp_path):
    marks = MarkFile(tmp_path / "m", "kmsg")
    marks.advance(Mark("kmsg", 5, {"seq": 5}))
    marks.advance(Mark("kmsg", 4, {"seq": 4}))
    assert MarkFile(tmp_path / "m", "kmsg").mark == Mark("kmsg", 5, {"seq": 5})


def test_a_mark_needs_no_room_on_the_disk_once_its_file_is_there(tmp_path):
    marks = MarkFile(tmp_path / "m", "kmsg")
    before = (tmp_path / "m").stat().st_size
    for number in range(1, 200):
        marks.advance(Mark("kmsg", number, {"boot": BOOT, "seq": 10**12 + number, "zero": 10**13}))
    assert (tmp_path / "m").stat().st_size == before


def test_what_the_disk_does_not_take_is_sent_from_memory_and_only_then_safe(tmp_path):
    outbox, safe = Outbox(Spool(tmp_path, 0)), []
    assert not outbox.keep(record(1))
    assert outbox.lend(record(1), lambda: safe.append(1))
    assert not outbox.settled(record(1))
    outbox.done(name for name, _ in outbox.take(10, 1000))
    assert safe == [1]
    assert outbox.settled(record(1))


def test_memory_lends_to_a_few_records_only(tmp_path):
    outbox = Outbox(Spool(tmp_path, 0))
    assert [outbox.lend(record(number)) for number in range(MAX_LENT + 1)] == [True] * MAX_LENT + [False]


def test_a_lent_record_goes_to_the_disk_when_that_has_room_again_and_not_while_it_is_being_sent(tmp_path):
    spool = Spool(tmp_path, 0)
    outbox = Outbox(spool)
    outbox.lend(record(1))
    outbox.take(10, 1000)
    spool._cap = 1_000_000
    assert not outbox.settled(record(1))
    outbox.back()
    assert outbox.settled(record(1))
    assert ids(outbox.take(10, 1000)) == ["r-1"]


def test_documents_leave_half_the_disk_to_what_is_said_only_once(tmp_path):
    outbox = Outbox(Spool(tmp_path, 10 * BLOCK_BYTES))
    for number in range(10):
        outbox.offer(record(number))
    assert (outbox.waiting, outbox.dropped) == (5, 5)
    assert outbox.keep(record(11))


def test_a_body_travels_gzipped_and_one_that_is_too_large_beside_its_message():
    small = packer().pack("kernel-log", b"NVRM: Xid\n" * 5000, NOON)
    assert small is not None
    assert len(small.text) < 2000
    assert decode_message(small.text).body == b"NVRM: Xid\n" * 5000
    noise = random.Random(1).randbytes(600_000)
    large = packer(has_bucket=True).pack("nvidia-smi-xml", noise, NOON)
    assert large is not None
    assert Outgoing.from_bytes(large.to_bytes()) == large
    assert decode_message(large.text).pointer == large.key
    assert packer().pack("nvidia-smi-xml", noise, NOON) is None


class Scene:
    def __init__(self, folder) -> None:
        self.clock, self.queue = MovedClock(), FakeQueue()
        self.outbox = Outbox(Spool(folder, 64_000_000))
        self.beats = 0
        self.sender = Sender(self.outbox, self.queue, self.clock, self._beat, random=random.Random(1))

    def _beat(self) -> Outgoing:
        self.beats += 1
        return Outgoing(f"beat-{self.beats}", "g", "{}")

    def minute(self) -> None:
        for _ in range(60):
            while self.sender.turn():
                pass
            self.clock.pass_(1)


def test_half_an_hour_without_network_loses_nothing_and_hammers_nobody(tmp_path):
    scene = Scene(tmp_path)
    scene.queue.away = True
    for minute in range(30):
        for number in range(30):
            scene.outbox.keep(record(minute * 30 + number))
        scene.minute()
    assert scene.queue.calls <= 30 + 30 * 60 / (MAX_PAUSE / 2) + 20
    scene.queue.away = False
    scene.minute()
    scene.minute()
    kept = [one.record_id for one in scene.queue.taken if one.record_id.startswith("r-")]
    assert kept == [f"r-{number}" for number in range(900)]
    assert scene.outbox.waiting == 0


def test_a_heartbeat_is_never_kept_for_later(tmp_path):
    scene = Scene(tmp_path)
    scene.queue.away = True
    scene.minute()
    scene.queue.away = False
    scene.minute()
    assert [one.record_id for one in scene.queue.taken] == ["beat-2"]


def test_a_record_that_the_queue_will_never_take_is_let_go(tmp_path):
    scene = Scene(tmp_path)
    scene.queue.never = {"r-1"}
    scene.outbox.keep(record(1))
    scene.outbox.keep(record(2))
    scene.minute()
    assert scene.outbox.waiting == 0
    assert scene.sender.refused == 1
    assert [one.record_id for one in scene.queue.taken if one.mark] == ["r-2"]


def test_a_clock_that_is_set_back_does_not_stop_the_heartbeat(tmp_path):
    scene = Scene(tmp_path)
    scene.minute()
    scene.clock.wall -= timedelta(days=3650)
    scene.minute()
    assert scene.beats == 2
