"""The law about faults of racks reads what the environment did, so it notices incidents that were never opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import count, islice

import pytest

from faultbridge.decide.correlate import life_cycle
from faultbridge.model.values import replace
from tests.sim.fakes import START, ManualClock
from tests.sim.history import History, build_system, draw_actions, draw_nodes_in_rack, play_on
from tests.sim.invariants.domain_faults import AT_MOST_ONE, GIVEN_UP, REPEATED, TOO_LONG, DomainFaultChecks
from tests.sim.invariants.lost_links import LostLinks
from tests.sim.journal import Journal
from tests.sim.shrink import violated_invariants
from tests.sim.simulated_system import SimulatedSystem

RACK = ("node-1", "node-2", "node-3", "node-4")
PAST_INTENT = ("repairing", "replacing", "provisioning")
FIRST, MAX_SEEDS = 9_500_000, 20


class Rack:
    """Four nodes of one rack that lose their links for three hours, and the entries about them."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.journal = Journal(self.clock, START)
        self.checks = DomainFaultChecks(self.journal)
        end = START + timedelta(hours=3)
        self.checks.lost += [LostLinks("rack-1", 4, f"train-a/{one}", f"i-{one}", START, end) for one in RACK]

    def add(self, node: str, kind: str, *, case: str = "", **data: object) -> None:
        body = json.dumps({"data": data})
        self.checks.entry_added({"type": kind, "cluster": "train-a", "node": node, "case_id": case, "body": body})

    def fault(self, code: str, nodes: tuple[str, ...] = RACK, kind: str = "Detected") -> None:
        for node in nodes:
            self.add(node, f"Node Fault {kind}", code=code, component=None, action="reboot_node")

    def pass_minutes(self, minutes: int) -> None:
        for _ in range(minutes):
            self.clock.advance(timedelta(minutes=1))
            self.checks.swept(self.clock.now())

    def intent(self, node: str, case: str | None = None) -> None:
        facts = {"step": "intent", "repair_action": "reboot_node", "old_instance": f"i-{node}"}
        self.add(node, "Node Replacement Step", case=case or f"c-{node}", **facts)

    def wait(self, node: str, status: str = "absorbed") -> None:
        self.add(node, "Case Status Change", to=status)

    @property
    def broken(self) -> list[str]:
        return [line.partition(":")[0] for line in self.journal.violations]


def test_a_fault_that_one_rack_explains_is_none_of_the_other_racks_behind_its_switch() -> None:
    switch = Rack()
    end = START + timedelta(hours=3)
    switch.checks.lost = [LostLinks("switch-1", 8, one.node, one.instance, START, end) for one in switch.checks.lost]
    first = frozenset(one.node for one in switch.checks.lost)
    other = frozenset({"train-a/node-9"})
    switch.checks.members |= {"rack-1": first, "rack-2": other, "switch-1": first | other}
    switch.fault("net.link_down")
    for case in ("c-1", "c-1"):
        switch.pass_minutes(5)
        switch.intent("node-9", case)
    assert switch.broken == []
    del switch.checks.members["rack-1"]
    switch.fault("net.link_absent")
    switch.intent("node-9", "c-1")
    assert switch.broken == [REPEATED]


def runs() -> Iterator[tuple[SimulatedSystem, History]]:
    """Run the next seeds with racks, one by one; a test takes as many as it needs."""
    seeds = (seed for seed in count(FIRST) if draw_nodes_in_rack(seed) is not None)
    for seed in islice(seeds, MAX_SEEDS):
        system = build_system(seed)
        yield system, play_on(system, seed, draw_actions(seed))


@pytest.mark.parametrize(
    ("in_rack", "repaired", "node", "broken"),
    [
        (4, (), "node-8", []),
        (4, (), "node-2", [GIVEN_UP]),
        (3, (), "node-8", [GIVEN_UP]),
        (4, RACK[:1], "node-8", []),
        (4, RACK[:1], "node-2", [GIVEN_UP]),
        (3, RACK[:1], "node-8", [GIVEN_UP]),
    ],
)
def test_a_rack_with_four_of_five_affected_nodes_explains_the_fault_of_its_switch(
    in_rack: int, repaired: tuple[str, ...], node: str, broken: list[str]
) -> None:
    switch, names = Rack(), ("node-1", "node-2", "node-3", "node-4", "node-5", "node-6", "node-7", "node-8")
    affected, end = (*RACK[:in_rack], "node-8"), START + timedelta(hours=3)
    switch.checks.lost = [LostLinks("switch-1", 8, f"train-a/{one}", f"i-{one}", START, end) for one in affected]
    members = {"rack-1": RACK, "switch-1": names}
    switch.checks.members |= {key: frozenset(f"train-a/{one}" for one in some) for key, some in members.items()}
    for one in repaired:
        switch.intent(one)
    switch.fault("net.link_down", affected)
    switch.pass_minutes(3)
    switch.intent(node)
    assert switch.broken == broken


@pytest.mark.parametrize(("minutes", "broken"), [(9, []), (11, [GIVEN_UP])])
def test_nodes_of_a_rack_that_failed_shortly_before_make_the_rack_explain_a_fault_of_its_switch(
    minutes: int, broken: list[str]
) -> None:
    switch, names = Rack(), tuple(f"train-a/node-{number}" for number in range(1, 9))
    before, after = ("node-1", "node-4"), ("node-2", "node-3", "node-8")
    late, end = START + timedelta(minutes=minutes), START + timedelta(hours=3)
    switch.checks.lost = [LostLinks("switch-1", 8, f"train-a/{one}", f"i-{one}", late, end) for one in after]
    switch.checks.members |= {"rack-1": frozenset(names[:4]), "switch-1": frozenset(names)}
    switch.fault("net.link_down", before)
    switch.pass_minutes(minutes)
    switch.fault("net.link_down", after)
    switch.pass_minutes(3)
    switch.intent("node-8")
    assert switch.broken == broken


@pytest.mark.parametrize(("minutes", "broken"), [(9, [GIVEN_UP]), (11, [])])
def test_nodes_that_fail_later_widen_a_fault_that_a_rack_explains_only_within_the_window(
    minutes: int, broken: list[str]
) -> None:
    switch, end = Rack(), START + timedelta(hours=3)
    late = START + timedelta(minutes=minutes)
    starts = dict.fromkeys((*RACK, "node-8"), START) | {"node-6": late, "node-7": late}
    switch.checks.lost = [LostLinks("switch-1", 8, f"train-a/{one}", f"i-{one}", at, end) for one, at in starts.items()]
    switch.checks.members |= {"rack-1": frozenset(f"train-a/{one}" for one in RACK)}
    switch.fault("net.link_down", (*RACK, "node-8"))
    switch.pass_minutes(minutes)
    switch.fault("net.link_down", ("node-6", "node-7"))
    switch.pass_minutes(3)
    switch.intent("node-8")
    assert switch.broken == broken


@pytest.mark.parametrize(("minutes", "broken"), [(9, []), (11, [GIVEN_UP])])
def test_the_nodes_that_failed_last_are_taken_alone_only_if_the_others_failed_long_before(
    minutes: int, broken: list[str]
) -> None:
    switch, end = Rack(), START + timedelta(hours=3)
    last = dict.fromkeys((*RACK[1:], "node-8"), START + timedelta(minutes=minutes))
    lost = {RACK[0]: START} | last
    switch.checks.lost = [LostLinks("switch-1", 9, f"train-a/{one}", f"i-{one}", at, end) for one, at in lost.items()]
    switch.checks.members |= {"rack-1": frozenset(f"train-a/{one}" for one in RACK)}
    switch.fault("net.link_down", RACK[:1])
    switch.pass_minutes(minutes)
    switch.fault("net.link_down", tuple(last))
    switch.pass_minutes(3)
    switch.intent("node-8")
    assert switch.broken == broken


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_an_intent_for_lost_links_of_a_rack_is_a_violation_although_no_incident_was_recorded(rack: Rack) -> None:
    rack.fault("net.link_down")
    rack.pass_minutes(10)
    rack.intent("node-1")
    assert rack.broken == [GIVEN_UP]


def test_each_further_intent_in_a_rack_without_links_is_a_violation_of_both_laws(rack: Rack) -> None:
    rack.fault("net.link_down")
    rack.pass_minutes(10)
    rack.intent("node-1")
    rack.intent("node-2")
    assert Counter(rack.broken) == {GIVEN_UP: 2, AT_MOST_ONE: 1}


def test_entries_after_a_restore_do_not_show_which_links_the_table_has_as_lost(rack: Rack) -> None:
    rack.checks.restored()
    rack.fault("net.link_down")
    rack.pass_minutes(10)
    rack.intent("node-1")
    assert rack.broken == []


def test_one_repair_of_a_fault_of_its_own_may_race_with_the_fault_of_the_rack(rack: Rack) -> None:
    rack.fault("net.link_down")
    rack.fault("xid.79", ("node-1", "node-2"))
    rack.pass_minutes(1)
    rack.intent("node-1")
    assert rack.broken == []
    rack.intent("node-2")
    assert rack.broken == [AT_MOST_ONE]


def repair_in_a_rack(rack: Rack, node: str, *cases: str) -> None:
    """Commit an intent of a node in each of the cases; after the first one, its rack fails, but not the node."""
    rack.checks.members["rack-1"] = frozenset(f"train-a/{one}" for one in (*RACK, node))
    for number, case in enumerate(cases):
        rack.intent(node, case)
        if number == 0:
            rack.fault("net.link_down")
        rack.pass_minutes(10)


def test_a_second_intent_of_a_case_in_a_rack_without_links_is_a_violation_although_the_node_lost_none(
    rack: Rack,
) -> None:
    repair_in_a_rack(rack, "node-5", "c-1", "c-1", "c-1")
    assert rack.broken == [REPEATED, REPEATED]


def test_the_first_intent_of_a_case_in_a_rack_without_links_is_no_repeated_repair(rack: Rack) -> None:
    repair_in_a_rack(rack, "node-5", "c-1", "c-2")
    assert rack.broken == []


def test_a_repeated_repair_outside_the_rack_or_after_the_maximum_age_is_none(rack: Rack) -> None:
    repair_in_a_rack(rack, "node-5", "c-1")
    rack.checks.members["rack-1"] = frozenset()
    rack.intent("node-5", "c-1")
    rack.checks.members["rack-1"] = frozenset({"train-a/node-5"})
    rack.pass_minutes(120)
    rack.intent("node-5", "c-1")
    assert rack.broken == []


def test_a_new_instance_is_cut_off_while_its_rack_has_no_links(rack: Rack) -> None:
    rack.checks.members["rack-1"] = frozenset(f"train-a/{one}" for one in (*RACK, "node-5"))
    for node, instance in (("node-5", "i-new"), ("node-9", "i-elsewhere")):
        rack.add(node, "Node Replacement Step", step="verify", new_instance=instance)
    assert (rack.checks.is_cut_off("i-new"), rack.checks.is_cut_off("i-elsewhere")) == (True, False)
    rack.checks.lost[:] = [replace(one, shared=False) for one in rack.checks.lost]
    assert not rack.checks.is_cut_off("i-new")
    rack.checks.lost[:] = [replace(one, shared=True) for one in rack.checks.lost]
    rack.pass_minutes(181)
    assert not rack.checks.is_cut_off("i-new")


@pytest.mark.parametrize("recorded", [RACK[:2], ()], ids=["two nodes", "none"])
def test_what_too_few_records_show_is_no_known_fault_of_a_rack(rack: Rack, recorded: tuple[str, ...]) -> None:
    rack.fault("net.link_down", recorded)
    rack.pass_minutes(10)
    rack.intent("node-1")
    rack.intent("node-2")
    assert rack.broken == []


@pytest.mark.parametrize(("instance", "broken"), [("i-node-3", []), ("i-new", [GIVEN_UP])])
def test_lost_links_of_a_node_under_repair_show_a_fault_only_if_its_new_instance_lost_them(
    rack: Rack, instance: str, broken: list[str]
) -> None:
    rack.checks.lost.append(replace(rack.checks.lost[2], instance="i-new"))
    rack.intent("node-3")
    rack.fault("net.link_down", ("node-1", "node-2"))
    rack.add("node-3", "Node Fault Detected", code="net.link_down", component=None, action="reboot_node",
             incarnation={"instance_id": instance})  # fmt: skip
    rack.pass_minutes(5)
    rack.intent("node-1")
    assert rack.broken == broken


@pytest.mark.parametrize(
    ("lost_after", "shown_after", "broken"), [(11, 11, []), (0, 11, []), (11, 10, []), (0, 10, [GIVEN_UP])]
)
def test_nodes_that_lose_their_links_long_after_each_other_are_no_known_fault_of_a_rack(
    rack: Rack, lost_after: int, shown_after: int, broken: list[str]
) -> None:
    late = timedelta(minutes=lost_after)
    rack.checks.lost[2:] = [replace(one, start=one.start + late) for one in rack.checks.lost[2:]]
    rack.fault("net.link_down", RACK[:2])
    rack.pass_minutes(shown_after)
    rack.fault("net.link_down", RACK[2:])
    rack.pass_minutes(4)
    rack.intent("node-1")
    assert rack.broken == broken


def test_after_the_maximum_age_repairs_continue(rack: Rack) -> None:
    rack.fault("net.link_down")
    rack.pass_minutes(120)
    rack.intent("node-1")
    rack.intent("node-2")
    assert rack.broken == []


@pytest.mark.parametrize(("is_seen", "broken"), [(True, [AT_MOST_ONE]), (False, [])])
def test_links_lost_after_a_recovery_are_another_fault_only_if_a_sweep_saw_the_recovery(
    rack: Rack, is_seen: bool, broken: list[str]
) -> None:
    rack.fault("net.link_down")
    rack.fault("xid.79", ("node-1", "node-2"))
    rack.pass_minutes(10)
    rack.fault("net.link_down", kind="Cleared")
    if is_seen:
        rack.pass_minutes(1)
    rack.clock.advance(timedelta(minutes=15))
    rack.fault("net.link_down")
    rack.pass_minutes(100)
    rack.intent("node-1")
    rack.intent("node-2")
    assert rack.broken == broken


def test_a_node_whose_links_are_up_again_may_be_repaired(rack: Rack) -> None:
    rack.fault("net.link_down")
    rack.fault("xid.79", ("node-1", "node-2"))
    rack.fault("net.link_down", ("node-1", "node-2"), kind="Cleared")
    rack.pass_minutes(10)
    rack.intent("node-1")
    rack.intent("node-2")
    assert rack.broken == []


def test_a_case_waits_longer_while_no_sweep_does_all_its_work(rack: Rack) -> None:
    rack.fault("xid.79", ("node-1",))
    rack.wait("node-1")
    rack.pass_minutes(179)
    rack.clock.advance(timedelta(hours=5))
    assert [*rack.checks.waiting_too_long()] == []


@pytest.mark.parametrize(("minutes", "broken"), [(180, []), (182, [TOO_LONG])])
def test_a_case_with_a_fault_of_its_own_waits_at_most_the_maximum_age_and_the_policys_time(
    rack: Rack, minutes: int, broken: list[str]
) -> None:
    rack.fault("xid.79", ("node-1",))
    rack.wait("node-1")
    rack.pass_minutes(minutes)
    assert bool([*rack.checks.waiting_too_long()]) is bool(broken)
    rack.wait("node-1", "queued")
    assert rack.broken == broken


def test_the_first_sweep_after_hours_without_one_ends_a_wait_in_time(rack: Rack) -> None:
    rack.fault("xid.79", ("node-1",))
    rack.wait("node-1")
    rack.pass_minutes(10)
    rack.clock.advance(timedelta(hours=8))
    rack.checks.swept(rack.clock.now())
    rack.wait("node-1", "queued")
    assert rack.broken == []


def test_a_case_that_waited_before_a_restore_is_not_counted_after_it(rack: Rack) -> None:
    rack.fault("xid.79", ("node-1",))
    rack.wait("node-1")
    rack.checks.restored()
    rack.pass_minutes(181)
    rack.wait("node-1", "queued")
    assert rack.broken == []


@pytest.mark.parametrize(("silent", "broken"), [(RACK[:2], [TOO_LONG]), (RACK[:3], [])])
def test_only_many_nodes_that_become_silent_later_let_a_case_wait_longer(
    rack: Rack, silent: tuple[str, ...], broken: list[str]
) -> None:
    rack.fault("xid.79", ("node-1",))
    rack.wait("node-1")
    rack.pass_minutes(60)
    rack.fault("host.silent", silent)
    rack.pass_minutes(140)
    rack.wait("node-1", "queued")
    assert rack.broken == broken


@pytest.mark.parametrize(("down", "broken"), [(RACK[:3], [TOO_LONG]), (RACK, [])])
def test_only_links_that_recover_while_many_others_are_down_let_a_case_wait_longer(
    rack: Rack, down: tuple[str, ...], broken: list[str]
) -> None:
    rack.fault("net.link_down", down)
    rack.fault("xid.79", ("node-1",))
    rack.wait("node-1")
    rack.pass_minutes(60)
    rack.fault("net.link_down", ("node-1",), "Cleared")
    rack.pass_minutes(140)
    rack.wait("node-1", "queued")
    assert rack.broken == broken


def test_the_laws_notice_that_correlation_opens_no_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_cycle, "find_shared_causes", lambda *_: ())
    assert any(violated_invariants(history) & {GIVEN_UP, AT_MOST_ONE} for _, history in runs())


@pytest.mark.nightly
def test_seeds_reach_an_incident_during_a_drain_and_after_an_intent() -> None:
    reached: Counter[str] = Counter()
    for system, history in runs():
        assert history.broken == ()
        reached += system.checks.domain_faults.reached if system.checks.incidents.last else Counter()
        if reached["draining"] and any(reached[status] for status in PAST_INTENT):
            break
    assert reached["draining"] > 0
    assert any(reached[status] for status in PAST_INTENT)
