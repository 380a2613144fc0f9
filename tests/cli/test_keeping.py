"""An operator brings a table back from a backup, or deletes what it holds of a cluster."""

from __future__ import annotations

import pytest

from faultbridge.simulation.fakes.archive import FakeArchivePorts
from tests.cli.desk import OPERATOR, Desk


@pytest.fixture
def keeper(desk: Desk) -> Desk:
    """A desk of a stack that keeps an archive."""
    world = desk.world
    world.app.archive_ports = FakeArchivePorts(world.ports.table, world.ports.clock)
    return desk


def test_restored_begins_an_epoch_in_every_stream_and_says_who_ordered_it(keeper: Desk) -> None:
    done = keeper.json("restored", "--by", OPERATOR)
    assert (done["epoch"], done["streams"], done["already"]) == (2, 2, 0)
    assert keeper.world.node().head.epoch == 2


def test_restored_again_with_its_epoch_finishes_it_and_without_begins_another(keeper: Desk) -> None:
    first = keeper.json("restored")
    assert keeper.json("restored", "--epoch", str(first["epoch"]))["already"] == first["streams"]
    assert keeper.json("restored")["epoch"] == first["epoch"] + 1


def test_erase_asks_for_a_word_first_and_deletes_nothing_without_it(desk: Desk) -> None:
    ran = desk("erase", "train-a")
    assert (ran.code, "say --yes" in ran.err) == (2, True)
    assert desk.world.node().head.sequence > 0


def test_erase_leaves_nothing_of_the_cluster(desk: Desk) -> None:
    assert desk.json("erase", "train-a", "--yes")["erased"] > 0
    assert [item for item in desk.world.ports.table.items() if "train-a" in str(item["pk"])] == []
    assert desk("cluster", "show", "train-a").code == 2


def test_a_cluster_that_nobody_knows_is_not_erased(desk: Desk) -> None:
    ran = desk("erase", "nowhere", "--yes")
    assert ran.code != 0
    assert "nowhere" in ran.err
