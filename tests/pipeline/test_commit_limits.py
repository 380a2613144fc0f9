"""Commit limits: weights of changes, and sizes of conditions and tombstones, at the exact limits."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.decide.fold.capacity import (
    ALWAYS_FITTING,
    MAX_CONDITION_BYTES,
    OVERFLOW,
    RESERVED_BYTES,
    condition_bytes,
    evict_tombstones,
    oversized_conditions,
    weight,
)
from faultbridge.decide.fold.changes import Change, ChangeKind
from faultbridge.decide.fold.fold import fold
from faultbridge.model.conditions import Condition, Tombstone
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import Fault
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, NOON, after, arrival, fault, folded, node

NAMED = replace(GPU, uuid="GPU-1", serial="16")


@pytest.mark.parametrize(
    ("kind", "component", "expected"),
    [
        (ChangeKind.BEGAN, NAMED, 3),
        (ChangeKind.BEGAN, replace(NAMED, serial=None), 2),
        (ChangeKind.BEGAN, replace(NAMED, uuid=None), 2),
        (ChangeKind.BEGAN, GPU, 1),
        (ChangeKind.UPDATED, NAMED, 1),
    ],
)
def test_a_new_fault_takes_an_entry_and_a_row_for_each_name_of_its_device(kind, component, expected: int) -> None:
    (condition,) = folded(node(), arrival(fault(component=component))).state.active()
    assert weight([Change(kind, NOON, condition)]) == expected
    assert weight([Change(kind, NOON), Change(kind, NOON, condition)]) == expected + 1


def faults(count: int, **names: str) -> list[Fault]:
    return [
        fault(f"xid.{1000 + number}", replace(GPU, **{name: f"{value}{number}" for name, value in names.items()}))
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("seen", "changed", "remaining"),
    [
        (faults(14, uuid="GPU-", serial="9"), 1, 1),
        (faults(14, uuid="GPU-", serial="9"), 0, 0),
        (faults(40), 0, 0),
        (faults(41), 0, 1),
        (faults(41), 1, 2),
    ],
    ids=["named devices after a change", "named devices", "at the limit", "above it", "after a change"],
)
def test_a_commit_takes_observations_until_its_changes_need_forty_writes(
    seen: list[Fault], changed: int, remaining: int
) -> None:
    arrivals = [arrival(one, after(seconds=number)) for number, one in enumerate(seen)]
    result = fold(node(), arrivals, now=after(hours=1), catalog=CATALOG, limits=Limits(), changed=changed)
    assert len(result.remaining) == remaining
    assert result.remaining == tuple(arrivals[len(arrivals) - remaining :])


def sized(sizes: dict[str, int], severity: Severity = Severity.WARNING) -> dict[str, Condition]:
    """Return conditions that take exactly these numbers of bytes."""
    (small,) = folded(node(), arrival(fault("xid.92", message="x", severity=severity))).state.active()
    rest = {key: condition_bytes(key, small) - 1 for key in sizes}
    return {key: replace(small, message="x" * (size - rest[key])) for key, size in sizes.items()}


WORST = sized({f"worst-{number}": 13_000 for number in range(7)}, Severity.FATAL)
FREE = MAX_CONDITION_BYTES - 7 * 13_000


@pytest.mark.parametrize(
    ("sizes", "evicted"),
    [
        ({"a": FREE}, []),
        ({"a": FREE + 1}, ["a"]),
    ],
)
def test_conditions_are_evicted_from_one_byte_above_the_limit(sizes: dict[str, int], evicted: list[str]) -> None:
    assert oversized_conditions(WORST | sized(sizes)) == evicted


@pytest.mark.parametrize(("more", "evicted"), [(0, ["large"]), (1, ["large", "small"])])
def test_conditions_are_evicted_until_the_reserved_bytes_are_free(more: int, evicted: list[str]) -> None:
    rest = sized({f"worst-{number}": 15_000 for number in range(6)}, Severity.FATAL)
    left = MAX_CONDITION_BYTES - RESERVED_BYTES - 6 * 15_000 + more
    assert oversized_conditions(rest | sized({"large": 9_000, "small": left})) == evicted


def test_six_conditions_always_fit() -> None:
    six = sized({f"c-{number}": 17_000 for number in range(ALWAYS_FITTING)})
    assert oversized_conditions(six) == []


def with_bytes(total: int) -> NodeState:
    """Return a node with seven fatal conditions and three warnings that take `total` bytes together."""
    state = folded(node(), *(arrival(one) for one in [*large(7, Severity.FATAL), *large(3, Severity.WARNING)])).state
    stored = sum(condition_bytes(key, one) for key, one in state.conditions.items())
    key, last = list(state.conditions.items())[-1]
    grown = replace(last, message=last.message + "x" * (total - stored))
    return replace(state, conditions={**state.conditions, key: grown})


def large(count: int, severity: Severity, message: str = "m" * 8000) -> list[Fault]:
    start = 10 * severity.rank
    return [
        fault("xid.92", replace(GPU, link=start + number), message=message, severity=severity)
        for number in range(count)
    ]


def test_a_new_condition_that_does_not_fit_evicts_the_largest_of_the_mildest_and_reports_it() -> None:
    state = with_bytes(MAX_CONDITION_BYTES)
    assert len(state.conditions) == 10
    result = folded(state, arrival(fault(), after(seconds=1)))
    codes = [one.code for one in result.state.active()]
    assert (codes.count("xid.92"), codes.count("xid.79"), codes.count(OVERFLOW)) == (9, 1, 1)
    assert [one.reason for one in result.changes if one.kind is ChangeKind.ENDED] == ["evicted for xid.79"]
    assert list(state.conditions)[-1] not in result.state.conditions


def test_another_reporter_that_does_not_fit_evicts_the_largest_of_the_mildest_conditions_too() -> None:
    state = with_bytes(MAX_CONDITION_BYTES)
    joined = fault("xid.92", replace(GPU, link=30), source="dcgm-health")
    result = folded(state, arrival(joined, after(seconds=1)))
    assert [one.reason for one in result.changes if one.kind is ChangeKind.ENDED] == ["evicted for xid.92"]
    assert list(state.conditions)[-1] not in result.state.conditions
    assert OVERFLOW in [one.code for one in result.state.active()]


def test_a_condition_that_fits_evicts_none() -> None:
    result = folded(with_bytes(MAX_CONDITION_BYTES - 5000), arrival(fault(), after(seconds=1)))
    assert [change.kind for change in result.changes] == [ChangeKind.BEGAN]


@pytest.mark.parametrize(("count", "kept"), [(100, 100), (101, 100)])
def test_the_oldest_tombstones_above_40_kb_are_removed(count: int, kept: int) -> None:
    keys = [f"{number:03}".ljust(318, "k") for number in range(count)]  # 400 bytes with quotes and two times
    tombstones = {key: Tombstone(after(seconds=number)) for number, key in enumerate(keys)}
    evicted: dict[str, datetime] = {}
    assert evict_tombstones(tombstones, evicted, None) is None
    assert list(tombstones) == keys[count - kept :]
    assert evicted == ({} if count == kept else {keys[0]: NOON})
