"""Append: the only writer of nodes, against another writer, a lost answer and an illegal move."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.errors import Conflict, IllegalTransition, Transient
from faultbridge.ledger.append import MAX_TRIES, Append, Stack
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.observe import observe
from faultbridge.simulation.fakes import FakeTable, ManualClock, Seam, raise_once
from faultbridge.storage import keys
from faultbridge.storage.writes import Put
from tests.builders import CATALOG, KEY, NOON, STACK_ID, arrival, config, fault, node, rules

STACK = Stack(STACK_ID, "faultbridge")


class Bench:
    """An append on a fake table, with every pause it takes written down."""

    def __init__(self, **seam) -> None:
        self.clock = ManualClock(NOON)
        self.seam = Seam(**seam)
        self.table = FakeTable(self.clock, seam=self.seam)
        self.pauses: list[float] = []
        self.append = Append(self.table, self.clock, STACK, self.pauses.append, Random(1))

    def register(self) -> None:
        def revise(state, now):
            seated = replace(node(NodeStatus.HEALTHY), head=state.head)
            return Transition(seated, (entry_builder.status_change(state, NodeStatus.HEALTHY, now, "imported"),))

        self.append(KEY, revise, actor=Actor.CLI, config=config())

    def fail(self, code: str = "xid.79"):
        return self.append(KEY, failing(code), actor=Actor.INGEST, config=config())

    def entries(self) -> list[str]:
        page = self.table.query(keys.node_partition(KEY), prefix=keys.ENTRY)
        return [str(item["type"]) for item in page.items]


def failing(code: str = "xid.79"):
    def revise(state, now):
        arrivals = [arrival(fault(code), at=now)]
        passed = observe(state, arrivals, rebooted=False, rules=rules(), catalog=CATALOG, now=now)
        return Transition(passed.state, passed.drafts)

    return revise


def test_a_commit_writes_state_entries_and_every_mirror_together():
    bench = Bench()
    bench.register()
    done = bench.fail()
    shard = config().shard(KEY.node)
    assert len(bench.entries()) == 5
    assert bench.table.get(keys.bad(KEY.cluster, shard, KEY.node)) is not None
    assert bench.table.get(keys.case(done.state.case.id)) is not None
    assert len(bench.table.query(keys.shard_partition(KEY.cluster, shard), prefix="QUEUE#").items) == 1
    assert len({record.transaction for record in bench.table.stream}) == 2


def test_nothing_new_writes_nothing():
    bench = Bench()
    bench.register()
    before = len(bench.table.stream)
    bench.append(KEY, lambda state, now: Transition(state), actor=Actor.INGEST, config=config())
    assert len(bench.table.stream) == before


def test_a_repeat_without_an_entry_is_one_plain_write():
    bench = Bench()
    bench.register()
    bench.fail()
    bench.clock.advance(timedelta(seconds=1))
    bench.fail()
    assert bench.seam.calls[-1].name == "table.write"


def test_a_lost_race_is_run_again_on_what_the_winner_wrote():
    bench = Bench()
    bench.register()
    rival_came = []

    def revise(state, now):
        if not rival_came:
            rival_came.append(True)
            bench.fail("xid.48")
        return failing()(state, now)

    done = bench.append(KEY, revise, actor=Actor.INGEST, config=config())
    assert {condition.code for condition in done.state.active()} == {"xid.48", "xid.79"}
    assert len(bench.pauses) == 1


def test_a_lost_acknowledgement_is_no_second_effect():
    bench = Bench()
    bench.register()
    bench.seam.after = raise_once(("table.transact", Conflict("the answer was lost")))
    done = bench.fail()
    assert done.state.conditions["xid.79@gpu/pci=0000:c1:00"].count == 1
    assert len(bench.entries()) == 5


def test_after_twenty_lost_races_the_conflict_is_the_callers():
    bench = Bench()
    bench.register()
    bench.seam.before = lambda call: (_ for _ in ()).throw(Conflict("busy")) if call.operation == "transact" else None
    with pytest.raises(Conflict):
        bench.fail()
    assert len(bench.pauses) == MAX_TRIES - 1


def test_an_outage_is_not_tried_again_here():
    bench = Bench()
    bench.register()
    bench.seam.before = raise_once(("table.transact", Transient("throttled")))
    with pytest.raises(Transient):
        bench.fail()
    assert bench.pauses == []


@pytest.mark.parametrize(
    ("actor", "target"),
    [(Actor.INGEST, NodeStatus.DRAINING), (Actor.STEP, NodeStatus.RETIRED), (Actor.SWEEP, NodeStatus.PROVISIONING)],
)
def test_a_move_without_an_edge_for_its_actor_is_never_written(actor, target):
    bench = Bench()
    bench.register()

    def revise(state, now):
        return Transition(replace(state, status=target), (entry_builder.status_change(state, target, now, "because"),))

    with pytest.raises(IllegalTransition):
        bench.append(KEY, revise, actor=actor, config=config())


def test_a_status_does_not_change_without_an_entry_that_says_so():
    bench = Bench()
    bench.register()
    with pytest.raises(IllegalTransition):
        bench.append(
            KEY,
            lambda state, now: Transition(replace(state, status=NodeStatus.DEGRADED)),
            actor=Actor.INGEST,
            config=config(),
        )


def test_two_writers_who_found_the_same_version_are_not_taken_for_one() -> None:
    """Neither says anything on the record, so only what they write tells them apart."""
    bench = Bench()
    bench.register()
    quicker: list[str] = ["other"]

    def write_beside(name: str):
        item = {"pk": "BESIDE", "sk": name}
        return lambda state, now: Transition(replace(state, unverified=True), writes=(Put(item),))

    def let_the_other_pass(call):
        if call.name == "table.transact" and quicker:
            bench.append(KEY, write_beside(quicker.pop()), actor=Actor.SWEEP, config=config())

    bench.seam.before = let_the_other_pass
    bench.append(KEY, write_beside("mine"), actor=Actor.SWEEP, config=config())
    assert {str(item["sk"]) for item in bench.table.query("BESIDE").items} == {"mine", "other"}
