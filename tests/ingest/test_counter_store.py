"""Readings: what is kept of the last look at each port, and which looks are no news."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.domain.faults import Component, CounterSample
from faultbridge.domain.times import to_text
from faultbridge.ingest.counter_store import KEPT_EVERY, Compared, CounterStore
from faultbridge.simulation.fakes import FakeTable
from faultbridge.storage import keys
from tests.builders import GPU, KEY, NOON, OTHER_GPU, after, arrival, node

SOURCE = "dcgm-metrics"
MILLISECOND = timedelta(milliseconds=1)


def look(xid: int, at: datetime, gpu: Component = GPU) -> tuple[CounterSample, datetime]:
    """A look at one GPU's gauge of the last Xid."""
    return CounterSample(SOURCE, gpu, {"DCGM_FI_DEV_XID_ERRORS": xid}), at


def compared(samples: CounterStore, *looks: tuple[CounterSample, datetime]) -> Compared:
    return samples.compare(node(), [arrival(sample, at) for sample, at in looks], NOON)


def codes(found: Compared) -> list[str]:
    return [fault.observation.code for fault in found.faults]


def kept_at(samples: CounterStore) -> str:
    kept = samples.table.get(keys.counter_samples(KEY, SOURCE))
    assert kept is not None
    return str(kept["at"])


@pytest.fixture
def samples() -> CounterStore:
    """Both GPUs were looked at at noon, and that is kept."""
    made = CounterStore(FakeTable())
    made.keep(compared(made, look(0, NOON), look(0, NOON, OTHER_GPU)))
    return made


@pytest.mark.parametrize(
    ("later", "kept"),
    [(timedelta(minutes=1), False), (KEPT_EVERY - MILLISECOND, False), (KEPT_EVERY, True), (2 * KEPT_EVERY, True)],
)
def test_a_look_without_a_fault_is_kept_every_five_minutes(samples: CounterStore, later: timedelta, kept: bool) -> None:
    samples.keep(compared(samples, look(0, NOON + later)))
    assert kept_at(samples) == to_text(NOON + later if kept else NOON)


def test_of_two_looks_in_one_instant_the_first_counts_and_the_next_one_shows_what_rose(samples: CounterStore) -> None:
    assert codes(compared(samples, look(0, after(minutes=1)), look(79, after(minutes=1)))) == []
    assert codes(compared(samples, look(79, after(minutes=2)))) == ["xid.79"]


def test_a_look_at_one_port_that_comes_after_a_newer_one_at_another_waits_for_the_next(samples: CounterStore) -> None:
    samples.keep(compared(samples, look(0, after(minutes=6))))
    assert compared(samples, look(79, after(minutes=3), OTHER_GPU)) == Compared()
    assert codes(compared(samples, look(79, after(minutes=7), OTHER_GPU))) == ["xid.79"]


def test_a_newer_look_that_another_worker_kept_meanwhile_stays(samples: CounterStore) -> None:
    slow = compared(samples, look(0, after(minutes=6)))
    samples.keep(compared(samples, look(0, after(minutes=12))))
    samples.keep(slow)
    assert kept_at(samples) == to_text(after(minutes=12))
