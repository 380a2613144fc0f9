"""Cluster reads: what services share, and when it is read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.errors import Conflict
from faultbridge.model.storage import findings, keys
from faultbridge.model.storage.projections import HELD, QUEUE, REQUESTED_ISOLATIONS, UNHEALTHY
from faultbridge.model.storage.writes import Check, Equals, Key, Put, Update
from faultbridge.record.cluster_reads import MAX_AGE, ClusterReads
from faultbridge.record.queries import query_all
from tests.sim.fakes import FakeTable, ManualClock, Seam

CLUSTER = "train-a"
CONTROL, STATE = keys.cluster_control(CLUSTER), keys.cluster_state(CLUSTER)
SHARD = keys.shard_partition(CLUSTER, 0)
ROW = keys.unhealthy_node(CLUSTER, 0, "n-1")
PREFIXES = (UNHEALTHY, QUEUE, HELD, REQUESTED_ISOLATIONS)


class Fixture:
    """Shared reads in front of a table that another process writes too."""

    def __init__(self) -> None:
        self.seam = Seam()
        self.table = FakeTable(ManualClock(), seam=self.seam)
        self.reads = ClusterReads(self.table, self.table.clock)
        for key in (CONTROL, STATE):
            self.write_as_another(key)

    def write_as_another(self, key: Key) -> None:
        """Raise the version of an item as another process does."""
        self.table.write(Update(key, add={"version": 1}))

    def version(self, key: Key) -> object:
        """Return the version of an item as the services read it."""
        return (self.reads.get(key) or {}).get("version")

    def rows(self, prefix: str = UNHEALTHY) -> list[object]:
        """Return the sort keys of rows as the services read them."""
        return [row["sk"] for row in query_all(self.reads, SHARD, prefix=prefix)]

    def calls(self) -> list[str]:
        """Return the names of the calls since the last time."""
        names = [call.name for call in self.seam.calls]
        self.seam.calls.clear()
        return names


def test_services_share_one_read_of_the_items_and_one_of_each_shard():
    world = Fixture()
    with world.reads.once(CLUSTER):
        world.calls()
        for _ in range(3):
            assert (world.version(CONTROL), world.version(STATE)) == (1, 1)
            assert world.reads.get_many((STATE, CONTROL)).keys() == {STATE, CONTROL}
            assert [world.rows(prefix) for prefix in PREFIXES] == [[], [], [], []]
        assert world.calls() == ["table.get_many", "table.query"]


def test_each_prefix_returns_its_own_rows_only():
    world = Fixture()
    names = [f"{prefix}n-1" for prefix in (*PREFIXES, keys.NODE_ROW)]
    for name in names:
        world.write_as_another(Key(SHARD, name))
    with world.reads.once(CLUSTER):
        assert [world.rows(prefix) for prefix in (*PREFIXES, keys.NODE_ROW)] == [[name] for name in names]


def test_what_was_read_is_five_seconds_old_at_most():
    world = Fixture()
    with world.reads.once(CLUSTER):
        world.version(CONTROL), world.rows()
        world.write_as_another(CONTROL), world.write_as_another(ROW)
        world.table.clock.advance(MAX_AGE)
        assert (world.version(CONTROL), world.rows()) == (1, [])
        world.table.clock.advance(0.001)
        assert (world.version(CONTROL), world.rows()) == (2, [ROW.sk])


def test_rows_alone_are_five_seconds_old_at_most():
    world = Fixture()
    with world.reads.once(CLUSTER):
        assert world.rows() == []
        world.write_as_another(ROW)
        world.table.clock.advance(MAX_AGE)
        assert world.rows() == []
        world.table.clock.advance(0.001)
        assert world.rows() == [ROW.sk]


@pytest.mark.parametrize(
    ("policy", "calls"), [(True, ["table.get_many"]), (False, ["table.get_many"] + 2 * ["table.get"])]
)
def test_the_policy_and_the_baselines_are_read_with_the_items_only_on_request(policy: bool, calls: list[str]):
    world = Fixture()
    with world.reads.once(CLUSTER, policy=policy):
        world.calls()
        for key in (CONTROL, keys.CURRENT_POLICY, findings.baselines_key(CLUSTER, 0)):
            world.version(key)
        assert world.calls() == calls


def test_a_request_for_all_shared_items_is_shared_too():
    world = Fixture()
    every = (keys.cluster_config(CLUSTER), CONTROL, STATE)
    with world.reads.once(CLUSTER, policy=False):
        world.calls()
        for _ in range(2):
            assert world.reads.get_many(every).keys() == {CONTROL, STATE}
        assert world.calls() == ["table.get_many"]


def test_items_of_which_one_is_not_shared_are_read_from_the_table():
    world = Fixture()
    other = keys.cluster_control("train-b")
    world.write_as_another(other)
    assert world.reads.get_many((CONTROL, other)).keys() == {CONTROL, other}
    with world.reads.once(CLUSTER):
        assert world.reads.get_many((CONTROL, other)).keys() == {CONTROL, other}


def test_a_part_of_the_rows_is_read_from_the_table():
    world = Fixture()
    later = keys.unhealthy_node(CLUSTER, 0, "n-2")
    for key in (ROW, later):
        world.write_as_another(key)
    with world.reads.once(CLUSTER):
        assert world.rows() == [ROW.sk, later.sk]
        parts = ({"after": ROW.sk}, {"up_to": ROW.sk}, {"limit": 1}, {"newest_first": True})
        found = [[row["sk"] for row in world.reads.query(SHARD, prefix=UNHEALTHY, **part).items] for part in parts]
        assert found == [[later.sk], [ROW.sk], [ROW.sk], [later.sk, ROW.sk]]


def test_rows_are_never_older_than_the_version_of_an_item_that_was_written_here():
    world = Fixture()
    with world.reads.once(CLUSTER):
        world.version(STATE), world.rows()
        world.write_as_another(ROW)
        world.reads.write(Update(STATE, add={"version": 1}))
        assert (world.version(STATE), world.rows()) == (2, [ROW.sk])


def test_a_row_that_was_written_here_is_read_again():
    world = Fixture()
    with world.reads.once(CLUSTER):
        assert world.rows() == []
        world.reads.transact([Put({"pk": ROW.pk, "sk": ROW.sk})])
        assert world.rows() == [ROW.sk]


def test_after_a_lost_race_the_version_is_read_again():
    world = Fixture()
    with world.reads.once(CLUSTER):
        world.version(CONTROL)
        world.write_as_another(CONTROL)
        with pytest.raises(Conflict):
            world.reads.transact([Check(CONTROL, Equals("version", 1))])
        assert world.version(CONTROL) == 2


def test_forget_makes_the_next_reads_fresh():
    world = Fixture()
    with world.reads.once(CLUSTER):
        world.version(CONTROL), world.rows()
        world.write_as_another(CONTROL), world.write_as_another(ROW)
        world.reads.forget()
        assert (world.version(CONTROL), world.rows()) == (2, [ROW.sk])


def test_nothing_is_shared_outside_the_context_or_with_an_inner_one():
    world = Fixture()
    assert world.version(CONTROL) == 1
    with world.reads.once(CLUSTER):
        assert world.version(CONTROL) == 1
        world.write_as_another(CONTROL)
        with world.reads.once(CLUSTER):
            assert world.version(CONTROL) == 2
        assert world.version(CONTROL) == 1
    assert world.version(CONTROL) == 2


def test_other_clusters_are_not_shared():
    world = Fixture()
    other = keys.cluster_control("train-b")
    with world.reads.once(CLUSTER):
        assert world.version(other) is None
        world.write_as_another(other)
        assert world.version(other) == 1


STEPS = st.lists(st.sampled_from(("another", "here", "lost race", "read", "wait")), max_size=12)


@given(STEPS)
def test_a_writer_on_the_version_of_the_status_has_seen_every_row_before_it(steps: list[str]) -> None:
    """Each write of another process adds a row and raises the version, as a status change does; none may be missed."""
    world, rows = Fixture(), 0
    with world.reads.once(CLUSTER):
        for step in steps:
            match step:
                case "another":
                    rows += 1
                    world.table.transact(
                        [Put({"pk": SHARD, "sk": f"{UNHEALTHY}{rows}"}), Update(STATE, add={"version": 1})]
                    )
                case "here":
                    world.reads.write(Put({"pk": SHARD, "sk": f"{QUEUE}{rows}"}))
                case "lost race":
                    with pytest.raises(Conflict):
                        world.reads.write(Update(STATE, add={"version": 1}, when=Equals("version", 0)))
                case "wait":
                    world.table.clock.advance(2)
                case "read":
                    version = world.version(STATE)
                    assert isinstance(version, int)
                    assert len(world.rows()) >= version - 1
