"""Append under conflicts, lost responses and illegal moves."""

from __future__ import annotations

import logging
from datetime import timedelta
from random import Random

import pytest

from faultbridge.decide import entry_builder
from faultbridge.decide.observe import observe
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus
from faultbridge.model.errors import Conflict, IllegalTransition, Transient
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.record.append import MAX_TRIES, Append, Stack, transaction_token
from tests.builders import CATALOG, KEY, NOON, STACK_ID, arrival, fault, node, rules
from tests.races import run_before_write, writes_to
from tests.sim.fakes import FakeTable, ManualClock, Seam, raise_once

STACK = Stack(STACK_ID, "faultbridge")


class AppendOnFakes:
    """An Append on a fake table that collects its pauses."""

    def __init__(self, **seam) -> None:
        self.clock = ManualClock(NOON)
        self.seam = Seam(**seam)
        self.table = FakeTable(self.clock, seam=self.seam)
        self.pauses: list[float] = []
        self.append = Append(self.table, self.clock, STACK, self.pauses.append, Random(1))

    def register(self) -> None:
        def revise(state, now):
            registered = replace(node(NodeStatus.HEALTHY), head=state.head)
            return Transition(registered, (entry_builder.status_change(state, NodeStatus.HEALTHY, now, "imported"),))

        self.append(KEY, revise, actor=Actor.CLI)

    def fail(self, code: str = "xid.79"):
        return self.append(KEY, failing(code), actor=Actor.INGEST)

    def entries(self) -> list[str]:
        page = self.table.query(keys.node_partition(KEY), prefix=keys.ENTRY)
        return [str(item["type"]) for item in page.items]


def failing(code: str = "xid.79"):
    def revise(state, now):
        arrivals = [arrival(fault(code), at=now)]
        observed = observe(state, arrivals, rules=rules(), catalog=CATALOG, now=now)
        return Transition(observed.state, observed.drafts)

    return revise


def test_a_commit_writes_state_entries_and_derived_rows_in_one_transaction():
    setup = AppendOnFakes()
    setup.register()
    appended = setup.fail()
    assert len(setup.entries()) == 5
    assert setup.table.get(keys.unhealthy_node(KEY.cluster, 0, KEY.node)) is not None
    assert setup.table.get(keys.case(appended.state.case.id)) is not None
    assert len(setup.table.query(keys.shard_partition(KEY.cluster, 0), prefix="ADMISSION#").items) == 1
    assert len({record.transaction for record in setup.table.stream}) == 2


def test_a_transition_without_changes_writes_nothing():
    setup = AppendOnFakes()
    setup.register()
    before = len(setup.table.stream)
    setup.append(KEY, lambda state, now: Transition(state), actor=Actor.INGEST)
    assert len(setup.table.stream) == before


def test_a_repeated_fault_without_an_entry_is_one_plain_write():
    setup = AppendOnFakes()
    setup.register()
    setup.fail()
    setup.clock.advance(timedelta(seconds=1))
    setup.fail()
    assert setup.seam.calls[-1].name == "table.write"


def test_after_a_conflict_the_transition_is_computed_again_from_the_new_state(caplog):
    caplog.set_level(logging.INFO)
    setup = AppendOnFakes()
    setup.register()
    rivals = []

    def revise(state, now):
        if not rivals:
            rivals.append(True)
            setup.fail("xid.48")
        return failing()(state, now)

    appended = setup.append(KEY, revise, actor=Actor.INGEST)
    assert {condition.code for condition in appended.state.active()} == {"xid.48", "xid.79"}
    assert len(setup.pauses) == 1
    (retried,) = [record for record in caplog.records if record.message == "commit_conflict"]
    assert (retried.cluster, retried.node, retried.actor, retried.attempt) == (*KEY, "ingest", 1)


def test_the_first_try_uses_the_given_state_and_each_retry_reads_it_again():
    setup = AppendOnFakes()
    setup.register()
    given = setup.append.read(KEY)
    stored = setup.fail("xid.48").state
    tried = []

    def revise(state, now):
        tried.append(state.head.version)
        return failing()(state, now)

    setup.append(KEY, revise, actor=Actor.INGEST, current=given)
    assert tried == [given.head.version, stored.head.version]


def test_a_transaction_token_is_as_long_as_dynamodb_allows():
    assert len(transaction_token([Put({"pk": "P", "sk": "S"})])) == 36


def test_a_lost_response_causes_no_second_effect():
    setup = AppendOnFakes()
    setup.register()
    setup.seam.after = raise_once(("table.transact", Conflict("the response was lost")))
    appended = setup.fail()
    assert appended.state.conditions["xid.79@gpu/pci=0000:c1:00"].count == 1
    assert len(setup.entries()) == 5


def test_after_twenty_conflicts_the_conflict_is_raised():
    setup = AppendOnFakes()
    setup.register()
    setup.seam.before = lambda call: (_ for _ in ()).throw(Conflict("busy")) if call.operation == "transact" else None
    with pytest.raises(Conflict):
        setup.fail()
    assert len(setup.pauses) == MAX_TRIES - 1


@pytest.mark.parametrize(("actor", "first"), [(Actor.INGEST, 0.1), (Actor.STEP, 0.05)])
def test_the_longest_pause_doubles_with_each_conflict_up_to_two_seconds(actor, first):
    setup = AppendOnFakes()
    longest = []

    class Longest(Random):
        """Returns the longest pause that is allowed."""

        def uniform(self, a: float, b: float) -> float:
            assert a == 0
            return b

    def lose(state, now):
        raise Conflict("another writer was faster")

    append = Append(setup.table, setup.clock, STACK, longest.append, Longest())
    with pytest.raises(Conflict):
        append(KEY, lose, actor=actor)
    assert longest == [min(2.0, first * 2**number) for number in range(MAX_TRIES - 1)]


def test_a_transient_error_is_not_retried_by_append():
    setup = AppendOnFakes()
    setup.register()
    setup.seam.before = raise_once(("table.transact", Transient("throttled")))
    with pytest.raises(Transient):
        setup.fail()
    assert setup.pauses == []


@pytest.mark.parametrize(
    ("actor", "target"),
    [(Actor.INGEST, NodeStatus.DRAINING), (Actor.STEP, NodeStatus.RETIRED), (Actor.SWEEP, NodeStatus.PROVISIONING)],
)
def test_a_move_without_an_edge_for_its_actor_is_refused_and_logged(actor, target, caplog):
    setup = AppendOnFakes()
    setup.register()

    def revise(state, now):
        return Transition(replace(state, status=target), (entry_builder.status_change(state, target, now, "because"),))

    with pytest.raises(IllegalTransition):
        setup.append(KEY, revise, actor=actor)
    (refused,) = [record for record in caplog.records if record.message == "transition_refused"]
    assert (refused.cluster, refused.node, refused.actor) == (*KEY, actor.value)
    assert f"{actor.value} may not record a move from healthy to {target.value}" in refused.reason


def test_a_status_change_without_an_entry_is_refused():
    setup = AppendOnFakes()
    setup.register()
    with pytest.raises(IllegalTransition):
        setup.append(
            KEY,
            lambda state, now: Transition(replace(state, status=NodeStatus.DEGRADED)),
            actor=Actor.INGEST,
        )


def test_two_writers_of_the_same_version_have_different_transaction_tokens() -> None:
    """Neither records an entry, so only the content of their writes distinguishes them."""
    setup = AppendOnFakes()
    setup.register()
    first_writers: list[str] = ["other"]

    def write_item(name: str):
        item = {"pk": "OTHER", "sk": name}
        return lambda state, now: Transition(replace(state, unverified=True), writes=(Put(item),))

    def run_the_other_writer(call):
        if call.name == "table.transact" and first_writers:
            setup.append(KEY, write_item(first_writers.pop()), actor=Actor.SWEEP)

    setup.seam.before = run_the_other_writer
    setup.append(KEY, write_item("mine"), actor=Actor.SWEEP)
    assert {str(item["sk"]) for item in setup.table.query("OTHER").items} == {"mine", "other"}


def test_an_entry_is_never_overwritten_although_the_state_of_its_node_is_older_than_the_entry() -> None:
    """The table may be restored without its entries being deleted, so that a sequence number is used already."""
    setup = AppendOnFakes()
    setup.register()
    older = setup.table.get(keys.node_state(KEY))
    setup.fail("xid.48")
    recorded = setup.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items
    setup.table.write(Put(older))
    with pytest.raises(Conflict):
        setup.fail("xid.79")
    assert setup.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items == recorded


def test_a_state_that_another_writer_creates_first_is_not_overwritten_by_a_change_without_an_entry() -> None:
    setup = AppendOnFakes()
    run_before_write(setup.seam, writes_to(keys.node_state(KEY)), setup.register)
    setup.append(KEY, lambda state, now: Transition(replace(state, unverified=True)), actor=Actor.SWEEP)
    stored = setup.append.read(KEY)
    assert (stored.status, stored.unverified) == (NodeStatus.HEALTHY, True)


def test_a_transaction_that_the_client_sends_again_after_a_lost_answer_takes_effect_once() -> None:
    """The AWS client repeats a call whose answer it lost, without the knowledge of its caller."""
    setup = AppendOnFakes()
    setup.register()
    _, writes = setup.append.draft(setup.append.read(KEY), failing(), actor=Actor.INGEST)
    setup.append.commit(writes)
    setup.append.commit(writes)
    assert len(setup.entries()) == 5
