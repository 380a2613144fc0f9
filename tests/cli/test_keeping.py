"""`recover` after a restore from backup, and `erase`, which deletes the items of a cluster."""

from __future__ import annotations

import pytest

from faultbridge.model.errors import Misconfigured
from faultbridge.repair.attempt.step_context import StepTools
from faultbridge.repair.spares import reconcile
from tests.cli.desk import OPERATOR, Desk


def test_recover_starts_an_epoch_in_every_stream(desk: Desk) -> None:
    done = desk.json("recover", "--by", OPERATOR, "--yes")
    assert (done["epoch"], done["streams"], done["already"]) == (2, 2, 0)
    assert desk.world.node().head.epoch == 2


def test_recover_names_the_spares_that_serve_a_node_and_the_clusters_that_it_could_not_check(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.json("recover", "--yes")["spares_dropped"] == []
    monkeypatch.setattr(reconcile, "drop_taken_spares", lambda _tools, cluster: [f"i-1 of {cluster}"])
    assert desk.json("recover", "--yes")["spares_dropped"] == ["i-1 of train-a"]

    def denied(_tools: StepTools, _cluster: str) -> list[str]:
        raise Misconfigured("no permission to describe instances")

    monkeypatch.setattr(reconcile, "drop_taken_spares", denied)
    done = desk.json("recover", "--yes")
    assert (done["epoch"], done["spares_not_checked"]) == (4, ["train-a: no permission to describe instances"])


def test_recover_with_an_epoch_continues_it_and_without_starts_another(desk: Desk) -> None:
    first = desk.json("recover", "--yes")
    assert desk.json("recover", "--epoch", str(first["epoch"]))["already"] == first["streams"]
    assert desk.json("recover", "--yes")["epoch"] == first["epoch"] + 1


def test_erase_deletes_nothing_without_confirmation(desk: Desk) -> None:
    ran = desk("erase", "train-a")
    assert (ran.code, "give --yes" in ran.err) == (2, True)
    assert desk.world.node().head.sequence > 0


def test_erase_deletes_every_item_of_the_cluster(desk: Desk) -> None:
    assert desk.json("erase", "train-a", "--yes")["erased"] > 0
    assert [item for item in desk.world.ports.table.items() if "train-a" in str(item["pk"])] == []
    assert desk("cluster", "show", "train-a").code == 2


def test_an_unregistered_cluster_is_not_erased(desk: Desk) -> None:
    ran = desk("erase", "nowhere", "--yes")
    assert ran.code != 0
    assert "nowhere" in ran.err
