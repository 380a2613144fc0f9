"""Registration: clusters and nodes are created once, with valid and unique names."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from faultbridge.model.cluster.config import MAX_SHARDS, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import Conflict, Rejected
from faultbridge.model.nodes import Instance, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Key, Update
from faultbridge.record.append import Append, Stack
from faultbridge.repair.registry.registration import NewNode, Registration
from tests.builders import STACK_ID
from tests.sim.fakes import FakeTable, ManualClock, raise_once

KEY = NodeKey("train-a", "ip-10-0-0-7")
NODE = NewNode("ip-10-0-0-7", "i-0123456789abcdef0", "gpu-workers", "p5.48xlarge", "us-east-1a", ("node7.cluster",))


def make_registration() -> Registration:
    clock = ManualClock()
    table = FakeTable(clock)
    append = Append(table, clock, Stack(STACK_ID, "faultbridge"), lambda _: None, Random(7))
    return Registration(table, append, clock)


def with_cluster(**settings: int) -> Registration:
    registration = make_registration()
    registration.add_cluster(ClusterConfig("train-a", **settings))
    return registration


def alias_owner(registration: Registration, kind: str, value: str) -> NodeKey:
    found = registration.table.get(keys.alias(kind, value))
    assert found is not None
    return items.read_alias(found).key


def test_a_new_cluster_only_observes() -> None:
    config = with_cluster().cluster("train-a")
    assert (config.mode, config.repair_owner, config.expected) == (Mode.OBSERVE, RepairOwner.OBSERVE, 0)


def test_a_cluster_is_registered_with_all_its_items_in_one_transaction() -> None:
    registration = with_cluster()
    control = registration.table.get(keys.cluster_control("train-a"))
    assert control is not None
    assert control["holders"] == {}
    assert registration.table.get(keys.cluster_state("train-a")) is not None
    assert [row["cluster"] for row in registration.table.query(keys.CLUSTERS).items] == ["train-a"]


def test_a_cluster_name_in_use_is_rejected() -> None:
    registration = with_cluster()
    with pytest.raises(Rejected, match="cluster_exists"):
        registration.add_cluster(ClusterConfig("train-a", mode=Mode.ACT))
    assert registration.cluster("train-a").mode is Mode.OBSERVE


def test_a_registration_can_be_retried_after_a_conflict_without_a_winner() -> None:
    registration = make_registration()
    assert isinstance(registration.table, FakeTable)
    registration.table.seam.before = raise_once(("table.transact", Conflict("interference")))
    with pytest.raises(Conflict):
        registration.add_cluster(ClusterConfig("train-a"))
    registration.add_cluster(ClusterConfig("train-a"))


@pytest.mark.parametrize("name", ["", "a#b", "a/b", "-a", "a b", "x" * 101, "ä"])
def test_an_invalid_cluster_name_is_rejected(name: str) -> None:
    with pytest.raises(Rejected, match="bad_cluster_name"):
        make_registration().add_cluster(ClusterConfig(name))


def test_the_mode_of_a_cluster_can_be_changed() -> None:
    registration = with_cluster()
    registration.set_cluster("train-a", {"mode": Mode.ACT, "repair_owner": RepairOwner.FAULTBRIDGE})
    config = registration.cluster("train-a")
    assert (config.acts, config.version) == (True, 2)


@pytest.mark.parametrize("field", ["shards", "nodes_per_shard", "cluster", "version", "color"])
def test_fixed_fields_of_a_cluster_cannot_be_set(field: str) -> None:
    with pytest.raises(Rejected, match="not_settable"):
        with_cluster().set_cluster("train-a", {field: 3})


def test_a_node_of_an_unregistered_cluster_is_rejected() -> None:
    with pytest.raises(Rejected, match="unknown_cluster"):
        make_registration().add_node("train-a", NODE)


def test_an_imported_node_is_healthy_and_unverified() -> None:
    registration = with_cluster()
    state = registration.add_node("train-a", NODE)
    assert (state.status, state.unverified) == (NodeStatus.HEALTHY, True)
    assert state.incarnation is not None
    assert state.incarnation.instance_id == "i-0123456789abcdef0"
    assert state == registration.append.read(KEY)


def test_a_node_without_an_instance_is_provisioning_and_unhealthy() -> None:
    registration = with_cluster()
    state = registration.add_node("train-a", NewNode("ip-10-0-0-7"))
    assert (state.status, state.unverified, state.incarnation) == (NodeStatus.PROVISIONING, False, None)
    assert registration.table.get(keys.unhealthy_node("train-a", 0, "ip-10-0-0-7")) is not None


def test_every_name_of_a_node_leads_to_the_node() -> None:
    registration = with_cluster()
    registration.add_node("train-a", NODE)
    names = [("name", "train-a/ip-10-0-0-7"), ("name", "train-a/node7.cluster"), ("instance", "i-0123456789abcdef0")]
    assert [alias_owner(registration, *name) for name in names] == [KEY] * 3


def test_a_new_node_is_added_to_the_roster_and_to_the_expected_number() -> None:
    registration = with_cluster()
    for number in range(5):
        registration.add_node("train-a", NewNode(f"n-{number}"))
    rows = registration.table.query(keys.shard_partition("train-a", 0), prefix="NODE#").items
    assert sorted(str(row["node"]) for row in rows) == [f"n-{number}" for number in range(5)]
    assert registration.cluster("train-a").expected == 5


def test_nodes_fill_one_shard_after_the_other_and_a_node_stays_in_its_shard() -> None:
    registration = with_cluster(nodes_per_shard=2)
    for number in range(5):
        registration.add_node("train-a", NewNode(f"n-{number}"))
    shards = {
        shard: [
            row["node"]
            for row in registration.table.query(keys.shard_partition("train-a", shard), prefix="NODE#").items
        ]
        for shard in range(registration.cluster("train-a").shards)
    }
    assert shards == {0: ["n-0", "n-1"], 1: ["n-2", "n-3"], 2: ["n-4"]}
    assert registration.add_node("train-a", NewNode("n-0")).shard == 0


def test_the_number_of_shards_has_a_limit() -> None:
    config = ClusterConfig("train-a", nodes_per_shard=2, expected=2 * MAX_SHARDS + 7)
    assert (config.next_shard, config.with_next_node().shards) == (7, MAX_SHARDS)


def test_registering_a_node_again_changes_nothing() -> None:
    registration = with_cluster()
    first = registration.add_node("train-a", NODE)
    assert registration.add_node("train-a", NODE) == first
    assert registration.add_node("train-a", NewNode("ip-10-0-0-7")) == first
    assert registration.cluster("train-a").expected == 1


def test_registering_a_node_again_adds_the_group_that_it_lacks() -> None:
    registration = with_cluster()
    first = registration.add_node("train-a", NewNode("ip-10-0-0-7", "i-0123456789abcdef0", domain="rack-1"))
    row_key = keys.roster("train-a", first.shard, "ip-10-0-0-7")
    registration.table.write(Update(row_key, set={("opted_out",): True}))
    state = registration.add_node("train-a", NewNode("ip-10-0-0-7", group="gpu-workers", domain="rack-2"))
    assert (state.placement.group, state.placement.domain) == ("gpu-workers", "rack-1")
    row = registration.table.get(row_key)
    assert row is not None
    assert (row["group"], row["instance"], row["opted_out"]) == ("gpu-workers", "i-0123456789abcdef0", True)
    assert registration.add_node("train-a", NewNode("ip-10-0-0-7", group="other")) == state


def test_a_node_with_another_instance_is_rejected() -> None:
    registration = with_cluster()
    registration.add_node("train-a", NODE)
    with pytest.raises(Rejected, match="node_exists"):
        registration.add_node("train-a", NewNode("ip-10-0-0-7", "i-0fffffffffffffff0"))


@pytest.mark.parametrize(
    "other", [NewNode("other", "i-0123456789abcdef0"), NewNode("other", None, aliases=("node7.cluster",))]
)
def test_a_name_or_instance_of_another_node_is_rejected(other: NewNode) -> None:
    registration = with_cluster()
    registration.add_node("train-a", NODE)
    with pytest.raises(Rejected, match="alias_taken"):
        registration.add_node("train-a", other)
    assert not registration.append.read(NodeKey("train-a", "other")).registered


def test_two_clusters_can_have_a_node_of_the_same_name() -> None:
    registration = with_cluster()
    registration.add_cluster(ClusterConfig("train-b"))
    registration.add_node("train-a", NewNode("n-1"))
    registration.add_node("train-b", NewNode("n-1"))
    assert alias_owner(registration, "name", "train-b/n-1") == NodeKey("train-b", "n-1")


def test_a_node_is_registered_after_a_conflict() -> None:
    registration = with_cluster()
    assert isinstance(registration.table, FakeTable)
    registration.table.seam.before = raise_once(("table.transact", Conflict("version")))
    assert registration.add_node("train-a", NODE).registered
    assert registration.cluster("train-a").expected == 1


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (NewNode("a b"), "bad_node_name"),
        (NewNode("n", "node-7"), "bad_instance_id"),
        (NewNode("n", aliases=("a#b",)), "bad_node_name"),
        (NewNode("n", aliases=tuple(f"a{number}" for number in range(21))), "too_many_aliases"),
    ],
)
def test_a_node_with_invalid_names_is_rejected(node: NewNode, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        with_cluster().add_node("train-a", node)


def test_a_refused_node_does_not_stop_an_import() -> None:
    registration = with_cluster()
    found = list(registration.add_nodes("train-a", [NewNode("n-1"), NewNode("a b"), NewNode("n-2")]))
    assert [isinstance(one, Rejected) for one in found] == [False, True, False]
    assert registration.cluster("train-a").expected == 2


def test_an_instance_of_an_inventory_becomes_a_node_with_its_preferred_name() -> None:
    registration = with_cluster()
    launched = registration.clock.now() - timedelta(days=3)
    names = ("ip-10-0-0-7", "ip-10-0-0-7.int")
    instance = Instance("i-0123456789abcdef0", names, {"zone": "us-east-1a"}, "gpu", "p5", launched)
    state = registration.add_node("train-a", NewNode.of_instance(instance))
    assert state.placement.group == "gpu"
    assert state.incarnation is not None
    assert state.incarnation.since == launched
    assert (state.placement.domain, state.placement.host_names) == ("us-east-1a", ("ip-10-0-0-7.int",))


def test_an_import_is_recorded_as_an_entry() -> None:
    registration = with_cluster()
    registration.add_node("train-a", NODE)
    entry = registration.table.get(Key("NODE#train-a#ip-10-0-0-7", "ENTRY#0001#000000000001"))
    assert entry is not None
    assert "import of a serving fleet" in str(entry["body"])


def test_orchestrator_eks_requires_the_name_of_the_eks_cluster() -> None:
    registration = make_registration()
    with pytest.raises(Rejected, match="no_eks_cluster"):
        registration.add_cluster(ClusterConfig("train-a", orchestrator="eks"))
    registration.add_cluster(ClusterConfig("train-a"))
    with pytest.raises(Rejected, match="no_eks_cluster"):
        registration.set_cluster("train-a", {"orchestrator": "eks"})
    named = registration.set_cluster("train-a", {"orchestrator": "eks", "eks_cluster": "gpu"})
    assert (named.orchestrator, named.eks_cluster) == ("eks", "gpu")
    with pytest.raises(Rejected, match="no_eks_cluster"):
        registration.set_cluster("train-a", {"eks_cluster": None})
