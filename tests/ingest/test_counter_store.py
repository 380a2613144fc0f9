"""Counter store: which samples are stored, and with which stored sample the next one is compared."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import pytest

from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample
from faultbridge.model.nodes import Incarnation
from faultbridge.model.records import SAMPLE_INTERVAL
from faultbridge.model.storage import keys
from faultbridge.model.storage.counter_samples import read_samples
from faultbridge.model.times import to_text
from faultbridge.serve.ingest.counter_store import ComparedSamples, CounterStore
from tests.builders import GPU, KEY, NOON, OTHER_GPU, after, arrival, node
from tests.sim.fakes import FakeTable
from tests.sim.fakes.item_size import item_bytes

SOURCE = "dcgm-metrics"
MILLISECOND = timedelta(milliseconds=1)


def sample(xid: int, at: datetime, gpu: Component = GPU) -> tuple[CounterSample, datetime]:
    """Return a sample of the last-Xid gauge of one GPU, and its time."""
    return CounterSample(SOURCE, gpu, {"DCGM_FI_DEV_XID_ERRORS": xid}), at


def compared(samples: CounterStore, *given: tuple[CounterSample, datetime]) -> ComparedSamples:
    return samples.compare(node(), [arrival(one, at) for one, at in given], NOON)


def codes(found: ComparedSamples) -> list[str]:
    return [fault.observation.code for fault in found.faults]


def stored_at(samples: CounterStore) -> str:
    found = samples.table.get(keys.counter_samples(KEY, SOURCE))
    assert found is not None
    return str(found["at"])


@pytest.fixture
def samples() -> CounterStore:
    """Return a store that has samples of both GPUs from noon."""
    made = CounterStore(FakeTable())
    made.write_alone(compared(made, sample(0, NOON), sample(0, NOON, OTHER_GPU)))
    return made


@pytest.mark.parametrize(
    ("later", "stored"),
    [
        (timedelta(minutes=1), False),
        (SAMPLE_INTERVAL - MILLISECOND, False),
        (SAMPLE_INTERVAL, True),
        (2 * SAMPLE_INTERVAL, True),
    ],
)
def test_a_sample_without_a_fault_is_stored_every_five_minutes(
    samples: CounterStore, later: timedelta, stored: bool
) -> None:
    samples.write_alone(compared(samples, sample(0, NOON + later)))
    assert stored_at(samples) == to_text(NOON + later if stored else NOON)


def test_of_two_samples_of_the_same_time_the_first_counts_and_a_later_one_shows_the_fault(
    samples: CounterStore,
) -> None:
    assert codes(compared(samples, sample(0, after(minutes=1)), sample(79, after(minutes=1)))) == []
    assert codes(compared(samples, sample(79, after(minutes=2)))) == ["xid.79"]


def test_a_sample_older_than_the_stored_one_of_another_gpu_is_skipped(samples: CounterStore) -> None:
    samples.write_alone(compared(samples, sample(0, after(minutes=6))))
    assert compared(samples, sample(79, after(minutes=3), OTHER_GPU)) == ComparedSamples()
    assert codes(compared(samples, sample(79, after(minutes=7), OTHER_GPU))) == ["xid.79"]


@pytest.mark.parametrize(("instance", "boot"), [(2, 1), (1, 2)])
def test_counters_of_an_earlier_instance_or_boot_are_not_compared(
    samples: CounterStore, instance: int, boot: int
) -> None:
    later = node(incarnation=Incarnation(instance, boot, "i-0aaaaaaaaaaaaaaa2", None, NOON))
    found = samples.compare(later, [arrival(*sample(79, after(minutes=1)))], NOON)
    assert codes(found) == []


def test_a_newer_sample_of_another_process_stays(samples: CounterStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    slow = compared(samples, sample(0, after(minutes=6)))
    samples.write_alone(compared(samples, sample(0, after(minutes=12))))
    samples.write_alone(slow)
    assert [record.message for record in caplog.records] == ["counter_samples_not_stored"]
    assert stored_at(samples) == to_text(after(minutes=12))


def ports(number: int, at: datetime, first: int = 0) -> list[tuple[CounterSample, datetime]]:
    values = {f"counter_{name}": 10**15 for name in range(20)}
    nics = (Component(ComponentType.NIC, name=f"mlx5_{port}") for port in range(first, first + number))
    return [(CounterSample(SOURCE, nic, values), at) for nic in nics]


def stored_ports(samples: CounterStore) -> set[str]:
    found = samples.table.get(keys.counter_samples(KEY, SOURCE))
    assert found is not None
    return set(read_samples(found).ports)


def test_the_counters_of_a_component_that_was_not_reported_for_a_day_are_forgotten(samples: CounterStore) -> None:
    for hours in range(6, 31, 6):
        samples.write_alone(compared(samples, *ports(2, after(hours=hours), first=hours)))
    assert stored_ports(samples) == {
        f"nic/name=mlx5_{port}" for hours in (12, 18, 24, 30) for port in (hours, hours + 1)
    }


@pytest.mark.parametrize("number", [10, 100, 1000])
def test_counters_of_many_components_stay_below_200_kb_and_the_excess_is_a_fault(
    samples: CounterStore, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    found = compared(samples, *ports(number, after(hours=1)))
    (put,) = found.with_faults or found.alone
    assert item_bytes(put.item) < 200_000
    excess = number + 2 - len(read_samples(put.item).ports)
    assert codes(found) == (["agent.flood"] if excess else [])
    assert [record.message for record in caplog.records] == (["counters_not_stored"] if excess else [])
    assert bool(excess) == (number == 1000)


def test_of_too_many_components_those_reported_last_are_kept(samples: CounterStore) -> None:
    samples.write_alone(compared(samples, *ports(100, after(hours=1))))
    found = compared(samples, *ports(100, after(hours=2), first=100))
    assert codes(found) == ["agent.flood"]
    kept = set(read_samples(found.with_faults[0].item).ports)
    assert {f"nic/name=mlx5_{port}" for port in range(100, 200)} <= kept


def test_components_that_change_with_every_sample_do_not_accumulate(samples: CounterStore) -> None:
    for hour in range(1, 20):
        found = compared(samples, *ports(100, after(hours=hour), first=100 * hour))
        for put in (*found.with_faults, *found.alone):
            samples.table.write(put)
    found = samples.table.get(keys.counter_samples(KEY, SOURCE))
    assert found is not None
    assert item_bytes(found) < 200_000


def test_samples_of_a_listed_sender_are_not_compared_with_those_of_the_node(samples: CounterStore) -> None:
    claimed = [arrival(*sample(79, after(minutes=1)), claimed=True)]
    found = samples.compare(node(), claimed, NOON)
    samples.write_alone(found)
    assert codes(found) == []
    assert codes(compared(samples, sample(0, after(minutes=2)))) == []
    assert codes(compared(samples, sample(79, after(minutes=3)))) == ["xid.79"]


def test_a_fault_is_found_only_with_samples_that_were_read_after_the_node(samples: CounterStore) -> None:
    key = keys.counter_samples(KEY, SOURCE)
    read = {key: samples.table.get(key)}
    other = compared(samples, sample(79, after(minutes=1)))
    assert codes(other) == ["xid.79"]
    for put in other.with_faults:
        samples.table.write(put)
    given = [arrival(*sample(79, after(minutes=2)))]
    assert codes(samples.compare(node(), given, NOON, read=read)) == []
