"""Capacity: whatever a node's sources report, no commit has more than 90 writes and no node more than 200 KB."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.fold.capacity import (
    DROPPED,
    MAX_ATTRIBUTE_BYTES,
    MAX_REPORTERS,
    KnownSizes,
    condition_bytes,
    condition_sizes,
    limit_attributes,
    limit_reporters,
    oversized_conditions,
    tombstone_bytes,
)
from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.observe import observe, tick
from faultbridge.decode import data
from faultbridge.model.catalog import WorkEffect
from faultbridge.model.conditions import Condition, Reporter, Tombstone
from faultbridge.model.enums import Actor
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Clear, Component, Fault, Observation, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import dump
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Stack
from tests.builders import NOON, STACK_ID, after, arrival, config, folded, node, rules
from tests.sim.fakes import FakeTable, ManualClock
from tests.sim.fakes.item_size import item_bytes

CATALOG = data.load_catalog()
MAX_WRITES, MAX_BYTES = 90, 200_000
SOURCES = tuple(f"source-{number}" for number in range(12))
CODES = (
    "xid.79",
    "xid.63",
    "xid.31",
    "agent.node_unhealthy",
    "agent.gpu_unhealthy",
    "agent.replace_required",
    "agent.reboot_required",
    *(f"agent.x{number}{'y' * 50}" for number in range(40)),
)


class Ledger:
    """Commits what `observe` returns, and checks the limits of each commit."""

    def __init__(self, policy: Policy | None = None) -> None:
        clock = ManualClock()
        self.append = Append(FakeTable(clock), clock, Stack(STACK_ID, "faultbridge"), lambda _: None, Random(1))
        self.rules = rules() if policy is None else rules(policy=policy)
        self.state: NodeState = node()
        self.commits = 0

    def observe(self, observations: Iterable[Observation], at: datetime, *, rebooted: bool = False) -> None:
        """Apply observations in as many commits as they need."""
        arrivals: Sequence[Arrival] = [arrival(one, at, f"r-{number}") for number, one in enumerate(observations)]
        first = True
        while first or arrivals:
            transition = observe(
                self.state,
                arrivals,
                rules=self.rules,
                catalog=CATALOG,
                now=at,
                booted_at=at if rebooted and first else None,
            )
            assert first or len(transition.remaining) < len(arrivals) or transition.drafts
            self.commit(transition, at)
            arrivals, first = transition.remaining, False

    def tick(self, at: datetime) -> None:
        self.commit(tick(self.state, rules=self.rules, now=at), at)

    def commit(self, transition, at: datetime) -> None:
        appended, writes = self.append.prepare(self.state, transition, actor=Actor.INGEST, now=at)
        self.commits += 1
        assert len(writes) <= MAX_WRITES
        assert item_bytes(items.state_item(appended.state, at)) <= MAX_BYTES
        for entry in appended.entries:
            assert item_bytes(items.entry_item(entry, "partition", 0)) <= 60_000
        self.state = appended.state


def size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def component(random: Random) -> Component:
    number = random.randrange(40)
    kind = random.choice(list(ComponentType))
    if random.random() < 0.2:
        return Component(kind)
    return Component(
        kind,
        pci=f"0000:{number:02x}:00" if random.random() < 0.6 else None,
        uuid=f"GPU-{number}" + "\u00e9" * 50 if random.random() < 0.6 else None,
        serial=f"{number}" * 20,
        index=number,
        name="\x01" * 60 if random.random() < 0.2 else None,
    )


def fault(random: Random) -> Fault:
    attributes = {
        f"a{number}": random.choice(["x", "\x02", "\u00e9"]) * 500 for number in range(random.choice([0, 64]))
    }
    return Fault(
        random.choice(SOURCES),
        random.choice(CODES),
        component(random),
        random.choice(["short", "\x01" * 500]),
        evidence="e" * 4096,
        attributes=attributes,
        severity=random.choice([None, *Severity]),
        action=random.choice([None, *Action]),
    )


def observation(random: Random) -> Observation:
    kind = random.random()
    if kind < 0.7:
        return fault(random)
    if kind < 0.85:
        return Clear(random.choice(SOURCES), random.choice(CODES), component(random), "over")
    covers = {code: tuple(component(random) for _ in range(10)) for code in random.sample(CODES, 5)}
    present = tuple(fault(random) for _ in range(random.randrange(60)))
    source = random.choice(SOURCES)
    devices = tuple(
        Component(ComponentType.GPU, pci=f"0000:{number:02x}:00", uuid=f"GPU-{number}" + "\u00e9" * 50, index=number)
        for number in range(random.randrange(40))
    )
    return Snapshot(source, covers, tuple(replace(one, source=source) for one in present), devices=devices)


@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=5, deadline=None, phases=[Phase.generate])
def test_no_reachable_node_has_more_than_200_kb_and_no_commit_more_than_90_writes(seed: int) -> None:
    random = Random(seed)
    ledger = Ledger()
    for step in range(4):
        at = after(minutes=10 * step)
        found = [observation(random) for _ in range(random.randrange(60))]
        ledger.observe(found, at, rebooted=random.random() < 0.2)
        ledger.tick(at + timedelta(minutes=5))


def numbered(count: int, prefix: str, severity: Severity, **others: object) -> list[Fault]:
    device = Component(ComponentType.GPU, pci="0000:c1:00")
    return [
        Fault(
            "faultbridge",
            f"agent.{prefix}{number}",
            replace(device, uuid=f"GPU-{number}", serial=str(number), pci=f"0000:{number:02x}:00"),
            "m",
            severity=severity,
            action=Action.NONE,
            **others,  # type: ignore[arg-type] # fields of a fault
        )
        for number in range(count)
    ]


def cleared(faults: Iterable[Fault]) -> list[Clear]:
    return [Clear(one.source, one.code, one.component, "over") for one in faults]


def test_64_worse_faults_that_evict_64_mild_ones_take_several_commits() -> None:
    ledger = Ledger()
    ledger.observe(numbered(64, "x", Severity.WARNING), NOON)
    before = ledger.commits
    ledger.observe(numbered(64, "y", Severity.FATAL), after(minutes=1))
    assert ledger.commits > before + 1
    codes = [condition.code for condition in ledger.state.active()]
    assert sum(code.startswith("agent.y") for code in codes) == 64
    assert "host.condition_overflow" in codes


def test_64_clears_and_60_new_faults_of_one_record_take_several_commits_and_lose_none() -> None:
    ledger = Ledger()
    mild = numbered(64, "x", Severity.WARNING)
    ledger.observe(mild, NOON)
    ledger.observe([*cleared(mild), *numbered(60, "y", Severity.WARNING)], after(minutes=1))
    assert {condition.code for condition in ledger.state.active()} == {f"agent.y{number}" for number in range(60)}


def test_a_snapshot_that_changes_more_than_a_commit_may_contain_is_continued_and_then_complete() -> None:
    ledger = Ledger()
    old = [replace(one, source="smi") for one in numbered(60, "x", Severity.WARNING)]
    new = [replace(one, source="smi") for one in numbered(60, "y", Severity.WARNING)]
    ledger.observe([Snapshot("smi", {}, tuple(old))], NOON)
    covers = {one.code: (one.component,) for one in (*old, *new)}
    ledger.observe([Snapshot("smi", covers, tuple(new))], after(minutes=1))
    ledger.observe([Snapshot("smi", covers, tuple(new))], after(minutes=2))
    codes = {condition.code for condition in ledger.state.active()}
    assert codes == {one.code for one in new} | {"host.condition_overflow"}
    assert ledger.state.snapshots == {"smi": after(minutes=2)}


def test_a_reboot_that_ends_64_conditions_leaves_the_faults_of_the_new_boot_to_the_next_commit() -> None:
    ledger = Ledger()
    ledger.observe(numbered(64, "x", Severity.WARNING), NOON)
    ledger.observe(numbered(20, "y", Severity.FATAL), after(minutes=1), rebooted=True)
    assert {condition.code for condition in ledger.state.active()} == {f"agent.y{number}" for number in range(20)}


def test_a_new_policy_changes_at_most_8_other_conditions_in_a_commit_and_then_the_rest() -> None:
    ledger = Ledger()
    ledger.observe(numbered(40, "x", Severity.WARNING), NOON)
    severe = Policy("new", (Rule("all", Match(codes=("agent.*",)), severity=Severity.ERROR),))
    ledger.rules = Rules(severe, config(), CATALOG, STACK_ID)
    changed = []
    for minute in range(1, 6):
        ledger.tick(after(minutes=minute))
        changed.append(sum(condition.severity is Severity.ERROR for condition in ledger.state.active()))
    assert changed == [8, 16, 24, 32, 40]


@pytest.mark.parametrize("size_of_value", [100, 500])
def test_attributes_beyond_the_limit_are_counted(size_of_value: int) -> None:
    attributes = {f"a{number}": "x" * size_of_value for number in range(64)} | {"important": "yes"}
    kept = limit_attributes(attributes, MAX_ATTRIBUTE_BYTES)
    assert size(kept) <= MAX_ATTRIBUTE_BYTES
    assert int(kept.pop(DROPPED)) == len(attributes) - len(kept)
    assert kept["important"] == "yes"


def test_of_more_than_8_reporters_inactive_and_old_ones_are_forgotten_first() -> None:
    reporters = {f"s-{number}": Reporter(number != 3, after(minutes=number)) for number in range(MAX_REPORTERS + 2)}
    assert limit_reporters(reporters, "s-0").keys() == reporters.keys() - {"s-3", "s-1"}


texts = st.text(max_size=60)
hours = st.dictionaries(st.sampled_from([f"2026-02-03T{hour:02}" for hour in range(24)]), st.integers(1, 10**6))
conditions = st.builds(
    Condition,
    code=st.sampled_from(CODES),
    component=st.builds(Component, st.sampled_from(ComponentType), texts, texts, st.integers(0, 9**9), texts),
    severity=st.sampled_from(Severity),
    action=st.sampled_from(Action),
    scope=st.just("instance"),
    ends_on=st.just(("replace_node", "verified", "quiet:3600")),
    since=st.just(NOON),
    last_at=st.just(NOON),
    message=texts,
    ended_before=st.just(NOON),
    reported_severity=st.sampled_from(Severity),
    reported_action=st.sampled_from(Action),
    reporters=st.dictionaries(
        texts,
        st.builds(
            Reporter,
            st.booleans(),
            st.just(NOON),
            st.just(("0" * 16,) * 8),
            st.none() | texts,
            st.just(True),
            st.sampled_from(Severity),
            st.sampled_from(Action),
            st.integers(1, 10**6),
            hours,
        ),
        max_size=8,
    ),
    attributes=st.dictionaries(texts, texts, max_size=10),
    mode=texts,
    work=st.sampled_from(WorkEffect),
)


@given(texts, conditions)
def test_the_estimated_size_of_a_condition_is_never_too_low(key: str, condition: Condition) -> None:
    assert size({key: dump(condition)}) <= condition_bytes(key, condition)


@given(texts, st.dictionaries(texts, st.just(NOON), max_size=8))
def test_the_estimated_size_of_a_tombstone_is_never_too_low(key: str, reporters: dict[str, datetime]) -> None:
    tombstone = Tombstone(NOON, reporters)
    assert size({key: dump(tombstone)}) <= tombstone_bytes(key, tombstone)


def condition(number: int, severity: Severity, size_of_message: int) -> Condition:
    (found,) = folded(node(), arrival(numbered(1, f"x{number}", severity)[0])).state.active()
    return replace(found, message="x" * size_of_message)


def test_the_largest_of_the_mildest_conditions_are_evicted_until_the_others_fit() -> None:
    worst = {f"worst-{number}": condition(number, Severity.FATAL, 11_500) for number in range(6)}
    mild = {f"mild-{size}": condition(size, Severity.WARNING, size) for size in (9_000, 10_000, 11_000)}
    assert oversized_conditions(worst) == []
    assert oversized_conditions(worst | mild) == ["mild-11000"]
    larger = {key: replace(one, message="x" * 16_000) for key, one in worst.items()}
    assert oversized_conditions(larger | mild)[:3] == ["mild-11000", "mild-10000", "mild-9000"]


def test_the_size_of_a_changed_condition_is_computed_again() -> None:
    known: KnownSizes = {}
    first = {"a": condition(1, Severity.WARNING, 100), "b": condition(2, Severity.WARNING, 200)}
    before = condition_sizes(first, known)
    changed = {"b": replace(first["b"], message="x" * 300), "c": first["a"]}
    assert condition_sizes(first, known) == before
    assert condition_sizes(changed, known) == {key: condition_bytes(key, one) for key, one in changed.items()}


def test_attributes_that_fill_the_limit_exactly_are_kept() -> None:
    short, marker = len("a") + 2 + 100 + 2 + 8, 2 * len(DROPPED)
    attributes = {"a": "x" * 100, "b": "y" * 1000}
    assert limit_attributes(attributes, short + marker) == {"a": "x" * 100, DROPPED: "1"}
    assert limit_attributes(attributes, short + marker - 1) == {DROPPED: "2"}
    only = {"a": "x" * 100}
    assert limit_attributes(only, short) == only
    assert limit_attributes(only, short - 1) != only
