"""Unchanged counters: equal samples of an agent are not stored again, and the same faults are found as if they were."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.normalize.timestamp import assign_times
from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.faults import CounterSample, Fault
from faultbridge.model.records import SentValues
from faultbridge.model.storage import keys
from faultbridge.model.storage.counter_samples import STORED_AGAIN_AFTER, read_samples
from faultbridge.node.agent.cursors import ValueLog
from faultbridge.node.agent.unchanged_output import SAMPLED_SOURCES, UnchangedOutput
from faultbridge.serve.ingest.counter_store import CounterStore
from tests.builders import KEY, NOON, node
from tests.sim.fakes import FakeTable

PORT = "/sys/class/infiniband/mlx5_{}/ports/1"
ERRORS = ((0, 0), (0, 700), (20, 700), (120, 5_000), (250, 40_000))
"""Recoveries of a link (at most 5 in 60 s) and receive errors (at most 10 in 1 s).

Some of the rises are too many within a minute, some within ten, and some within an hour.
"""


@dataclass(frozen=True)
class Record:
    """One record of the agent: its time, its body, and what it states about its values."""

    id: str
    at: datetime
    body: bytes
    values: SentValues | None


@dataclass
class Counters:
    """The stored counters of one node; without `stated`, each record is that of an agent that states no values."""

    stated: bool
    store: CounterStore = field(default_factory=lambda: CounterStore(FakeTable()))
    found: list[tuple[datetime, str, Mapping[str, str]]] = field(default_factory=list)
    writes: int = 0

    def stored_at(self) -> datetime:
        """Return the time of the stored samples."""
        row = self.store.table.get(keys.counter_samples(KEY, "rdma-counters"))
        assert row is not None
        return read_samples(row).at

    def take(self, records: Sequence[Record], source: str = "rdma-counters") -> None:
        """Compare the samples of one batch with the stored ones, and store them."""
        arrivals = [
            Arrival(sample, one.at, one.id)
            for one in records
            for sample in assign_times(registry.decode(source, one.body, Hints(one.at)), received_at=one.at)
            if isinstance(sample, CounterSample)
        ]
        values = {one.id: one.values for one in records} if self.stated else {}
        compared = self.store.compare(node(), arrivals, records[-1].at, values)
        for fault in compared.faults:
            assert isinstance(fault.observation, Fault)
            self.found.append((fault.at, fault.observation.code, fault.observation.attributes))
        for put in (*compared.with_faults, *compared.alone):
            self.store.table.write(put)
            self.writes += 1


def body(errors: tuple[int, int]) -> bytes:
    """Return the counters of two ports."""
    names = ("link_error_recovery", "port_rcv_errors")
    return "".join(
        f"{PORT.format(port)}/counters/{name}: {value}\n"
        for port in range(2)
        for name, value in zip(names, errors, strict=True)
    ).encode()


class AgentRuns:
    """The output of an agent that reads its counters every minute, and sends what it selects."""

    def __init__(self, folder: Path, source: str = "rdma-counters") -> None:
        self._folder, self._source, self._numbers = folder, source, count()
        self.restart()

    def restart(self) -> None:
        """Start the agent again, with what it stored on disk."""
        self._selection = UnchangedOutput(600, ValueLog(self._folder))

    def read(self, minute: int, output: bytes) -> list[Record]:
        """Return the records that are sent of an output."""
        at = NOON + timedelta(minutes=minute)
        return [
            Record(f"r-{next(self._numbers)}", one.at, one.body, one.values)
            for one in self._selection.select(self._source, output, at, 60.0 * minute)
        ]


STRETCHES = st.lists(st.tuples(st.sampled_from(ERRORS), st.integers(1, 50), st.booleans()), max_size=8)
"""Values, for how many minutes they stay, and whether the agent starts again with them."""


def sent(folder: Path, stretches: Sequence[tuple[tuple[int, int], int, bool]]) -> Iterator[list[Record]]:
    """Yield the records of each minute in which some are sent."""
    agent, minutes = AgentRuns(folder), count()
    for errors, length, restarts in stretches:
        if restarts:
            agent.restart()
        for _ in range(length):
            if records := agent.read(next(minutes), body(errors)):
                yield records


@pytest.mark.slow
@given(stretches=STRETCHES, alone=st.booleans(), repeats=st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_the_same_faults_are_found_for_every_sequence_of_samples(stretches, alone: bool, repeats: list[int]) -> None:
    optimized, reference = Counters(stated=True), Counters(stated=False)
    before: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, records in enumerate(sent(Path(folder), stretches)):
            # The queue can deliver a record again that is not newer than the stored samples.
            old = [one for one in before if one.at <= optimized.stored_at()]
            again = old[-10:][repeats[number % len(repeats)] :][:1]
            before += records
            # The records of one minute share a message, or each is ingested alone.
            for batch in [[one] for one in (*again, *records)] if alone else [[*again, *records]]:
                optimized.take(batch)
                reference.take(batch)
    assert optimized.found == reference.found


def hours_without_a_change(folder: Path, hours: int = 2) -> tuple[AgentRuns, list[Record]]:
    """Return an agent whose counters did not change, and what it sent."""
    agent = AgentRuns(folder)
    return agent, [one for minute in range(60 * hours) for one in agent.read(minute, body((0, 0)))]


def test_equal_counters_are_stored_every_two_hours(tmp_path: Path) -> None:
    optimized, reference = Counters(stated=True), Counters(stated=False)
    _, records = hours_without_a_change(tmp_path, hours=24)
    for one in records:
        optimized.take([one])
        reference.take([one])
    assert (optimized.writes, reference.writes) == (timedelta(hours=24) // STORED_AGAIN_AFTER, len(records))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_short_burst_after_hours_is_not_averaged_over_them(tmp_path: Path, *, restarts: bool, missing: int) -> None:
    agent, records = hours_without_a_change(tmp_path)
    if restarts:
        agent.restart()
    burst = agent.read(121, body((120, 0)))
    counters = Counters(stated=True)
    # The sample before the burst and the last repetitions can be lost, or arrive later than the burst.
    for one in [*records, *burst][: -1 - missing]:
        counters.take([one])
    counters.take(burst[-1:])
    assert [code for _, code, _ in counters.found] == ["net.link_recoveries", "net.link_recoveries"]
    assert {facts["seconds"] for *_, facts in counters.found} == {"1260" if restarts else "120"}


@pytest.mark.parametrize("repeated", [0, -3, -2, -1])
def test_a_repeated_delivery_does_not_average_a_burst_over_hours(tmp_path: Path, repeated: int) -> None:
    agent, records = hours_without_a_change(tmp_path)
    counters = Counters(stated=True)
    for one in records:
        counters.take([one])
    counters.take([records[repeated], *agent.read(121, body((120, 0)))])
    assert [facts["seconds"] for *_, facts in counters.found] == ["120", "120"]


def test_values_that_came_back_are_compared_with_the_values_between(tmp_path: Path) -> None:
    outputs = [(0, 0)] * 30 + [(20, 0)] * 30 + [(0, 0)] * 30 + [(20, 0)]
    agent, counters = AgentRuns(tmp_path), Counters(stated=True)
    for minute, errors in enumerate(outputs):
        if records := agent.read(minute, body(errors)):
            counters.take(records)
    assert [at for at, _, _ in counters.found] == [NOON + timedelta(minutes=minute) for minute in (30, 30, 90, 90)]


def test_samples_of_another_sender_are_stored_each_time(tmp_path: Path) -> None:
    _, records = hours_without_a_change(tmp_path)
    counters = Counters(stated=True)
    for number, one in enumerate(records):
        counters.take([one if number % 2 else Record(one.id, one.at, one.body, None)])
    assert counters.writes == len(records)


def test_every_source_whose_samples_are_stored_states_its_values(tmp_path: Path) -> None:
    for source in sorted(SAMPLED_SOURCES):
        (record,) = AgentRuns(tmp_path, source).read(0, b"output")
        assert record.values is not None


def test_values_that_cannot_be_recorded_on_disk_are_stored_each_time(tmp_path: Path) -> None:
    _, records = hours_without_a_change(tmp_path / "missing")
    counters = Counters(stated=True)
    for one in records:
        counters.take([one])
    assert counters.writes == len(records)


def test_a_burst_is_not_averaged_over_hours_while_nothing_can_be_recorded_on_disk(tmp_path: Path) -> None:
    agent, records = hours_without_a_change(tmp_path)
    counters = Counters(stated=True)
    for one in records:
        counters.take([one])
    for file in tmp_path.iterdir():
        file.unlink()
    tmp_path.rmdir()
    counters.take(agent.read(121, body((120, 0)))[-1:])
    assert [facts["seconds"] for *_, facts in counters.found] == ["120", "120"]


def test_a_stored_set_of_samples_keeps_the_digest_of_one_record_only(tmp_path: Path) -> None:
    counters, (first,) = Counters(stated=True), AgentRuns(tmp_path).read(0, body((0, 0)))
    counters.take([first])
    half = Record(
        "half", NOON + timedelta(minutes=10), body((0, 0)).partition(b"/sys/class/infiniband/mlx5_1")[0], first.values
    )
    counters.take([half])
    row = counters.store.table.get(keys.counter_samples(KEY, "rdma-counters"))
    assert row is not None
    assert read_samples(row).digest is None
