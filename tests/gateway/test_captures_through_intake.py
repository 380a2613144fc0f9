"""A capture gives the same faults through every way in (send, agent, event bus) as decoded directly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from faultbridge.decide.normalize.trust import EVENT_BUS
from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.storage.wire.decode_message import SOURCES
from faultbridge.node.agent.agent import build_agent
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.serve.ingest.record_reader import Delivery, RecordReader
from faultbridge.serve.ingest.send import RawInput, Send
from tests.agent.fakes import BOOT, NOON, ManualClock
from tests.agent.fakes import FakeTransport as AgentQueue
from tests.decoders.captures import HERE, Capture, expected, held
from tests.sim.fakes import FakeObjects, FakeQueue, FakeReceipts

pytestmark = pytest.mark.slow

CAPTURES = [one for listing in sorted(HERE.glob("expectations*.toml")) for one in expected(listing)]
EVENTS = frozenset(source for source, _ in SOURCES.values())

Found = Counter[tuple[str, str, str]]
WayIn = Callable[[Capture, bytes, Path], Found]


def read(texts: Iterable[str], objects: FakeObjects, sender: str | None = None) -> Found:
    """Return what ingest reads from messages, before it resolves nodes."""
    reader, found = RecordReader(objects, registry.read), Counter[tuple[str, str, str]]()
    for number, text in enumerate(texts):
        for part in reader.read(Delivery(f"m-{number}", text, NOON, sender=sender)):
            found += held(part.observations)
    return found


def by_send(capture: Capture, body: bytes, _: Path) -> Found:
    queue, objects, ids = FakeQueue(), FakeObjects(), iter(range(10**6))
    send = Send(queue, objects, FakeReceipts(), queue.clock, lambda: f"r-{next(ids)}", "operator")
    assert send([RawInput(capture.source, "train-a", body, node="gpu-1")]).refused == ()
    return read([one.body for one in queue.messages], objects)


def by_agent(capture: Capture, body: bytes, folder: Path) -> Found:
    (folder / "boot_id").write_text(BOOT)
    queue = AgentQueue()
    settings = AgentSettings(
        "train-a", "https://queue", bucket="b", node="gpu-1", spool=folder / "state", kmsg=folder / "none",
        boot_id=folder / "boot_id", sysfs=folder / "sys", journal_units={}, nvidia_smi="none", dcgmi="none",
        exporter_url="http://127.0.0.1:9/",
    )  # fmt: skip
    agent = build_agent(settings, queue, ManualClock())
    (folder / "state" / "drop" / f"{capture.source}.capture").write_bytes(body)
    for file, source, taken in agent.drop_folder.pending():
        record = agent.packer.pack(source, taken, NOON)
        assert record is not None
        assert agent.outbox.store(record)
        agent.drop_folder.remove(file)
    while agent.sender.send_due():
        pass
    objects = FakeObjects()
    for key, kept in queue.objects.items():
        objects.put(key, kept)
    return read([one.text for one in queue.accepted if f'"{capture.source}"' in one.text], objects)


def by_event(_: Capture, body: bytes, __: Path) -> Found:
    return read([body.decode()], FakeObjects(), EVENT_BUS)


def directly(capture: Capture, body: bytes) -> Found:
    """Return the faults of a capture that is decoded directly."""
    return held(registry.decode(capture.source, body))


@pytest.mark.parametrize("way_in", [by_send, by_agent], ids=["send", "agent"])
def test_every_capture_gives_the_same_faults_through_each_way_in(way_in: WayIn, shared: Path, tmp_path: Path) -> None:
    different, seen = [], 0
    for number, capture in enumerate(CAPTURES):
        body = (shared / "samples" / capture.file).read_bytes()
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            wanted = directly(capture, body)
        except Rejected:
            continue
        seen += 1
        if way_in(capture, body, folder) != wanted:
            different.append(capture.file)
    assert different == []
    assert seen > 100


def test_every_captured_event_gives_the_same_faults_through_the_bus(shared: Path, tmp_path: Path) -> None:
    seen = set()
    for capture in CAPTURES:
        body = (shared / "samples" / capture.file).read_bytes()
        if capture.source in EVENTS and b'"detail-type"' in body:
            assert by_event(capture, body, tmp_path) == directly(capture, body), capture.file
            seen.add(capture.source)
    assert seen == EVENTS
