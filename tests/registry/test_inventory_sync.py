"""Inventory sync: registers new instances, and updates the nodes whose instance or metadata changed."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import ClusterState
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import FaultbridgeError, IllegalTransition, Misconfigured, Rejected, Transient
from faultbridge.model.nodes import Instance
from faultbridge.model.records import Outcome
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.record.cluster_stream import streams_of
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.groups import Group
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.registry.roster import new_metadata
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ops.erase import Erase
from faultbridge.serve.wiring.services import wire_node_orders, wire_registration, wire_rejects, wire_retirement
from tests.builders import KEY, NOON
from tests.registry.world import instance, node_of, replace_externally, terminate
from tests.sim.fakes import raise_once
from tests.world import GROUP, XID_79


def test_an_unchanged_group_causes_no_writes_and_two_calls(world, sync, inventory):
    before, calls = list(world.ports.table.items()), inventory.calls
    assert sync().unchanged
    assert list(world.ports.table.items()) == before
    assert inventory.calls - calls == 2


def test_a_node_registered_by_an_operator_gets_the_names_and_domains_of_its_instance(world, sync):
    found = node_of(world).placement
    host = f"ip-{instance(world)[-4:]}"
    assert found.host_names == (host, f"{host}.internal")
    assert dict(found.domains) == {"zone": "use1-az1", "network_node": f"nn-{instance(world)[-1]}"}
    assert found.domain == f"nn-{instance(world)[-1]}"
    assert world.outcomes(world.message(XID_79, node=host)) == [Outcome.RECORDED]


def test_a_name_of_a_host_is_not_kept_by_a_successor_and_the_name_of_an_operator_is(world, sync):
    first = world.ports.fleet.launch(GROUP)
    sync()
    host = f"ip-{first[-4:]}"
    config = wire_registration(world.app).cluster(KEY.cluster)
    named = ClusterNode.of(node_of(world, host), config)
    assert (named.host_names, named.keeps_name) == ((host, f"{host}.internal"), False)
    assert ClusterNode.of(node_of(world), config).keeps_name
    terminate(world, first)
    successor = world.ports.fleet.launch(GROUP)
    sync()
    assert instance(world, host) == successor
    moved = ClusterNode.of(node_of(world, host), config)
    assert (moved.host_names, moved.keeps_name) == ((f"ip-{successor[-4:]}", f"ip-{successor[-4:]}.internal"), False)


def test_the_roles_of_described_instances_are_pinned_once_and_earlier_ones_stay(world, sync, inventory, caplog):
    caplog.set_level(logging.INFO, logger="faultbridge")
    registration = wire_registration(world.app)
    registration.set_cluster(KEY.cluster, {"node_roles": ("AROABYHAND000000",)})
    inventory.role_id = "AROAINVENTORY0000"
    world.ports.fleet.launch(GROUP)
    sync()
    pinned = registration.cluster(KEY.cluster)
    assert pinned.node_roles == ("AROABYHAND000000", "AROAINVENTORY0000")
    world.ports.fleet.launch(GROUP)
    sync()
    assert registration.cluster(KEY.cluster).node_roles == pinned.node_roles
    assert caplog.text.count("node_roles_pinned") == 1


def test_the_roles_of_two_groups_of_one_sync_are_both_pinned(world, sync, inventory):
    registration, describe = wire_registration(world.app), inventory.instance
    registration.add_node(KEY.cluster, NewNode("c", world.ports.fleet.launch("others"), "others"))
    world.ports.fleet.launch(GROUP)
    roles = {GROUP: "AROAFIRST00000000", "others": "AROASECOND0000000"}
    inventory.instance = lambda group, one: replace(describe(group, one), role_id=roles[group])
    sync()
    assert registration.cluster(KEY.cluster).node_roles == tuple(roles.values())


def test_a_new_instance_becomes_an_unverified_node_that_accepts_records(world, sync):
    new = world.ports.fleet.launch(GROUP)
    assert sync().added == [f"ip-{new[-4:]}"]
    state = node_of(world, f"ip-{new[-4:]}")
    assert (state.status, state.unverified, state.placement.domain) == (NodeStatus.VALIDATING, True, f"nn-{new[-1]}")
    assert world.outcomes(world.message(XID_79, node=new)) == [Outcome.RECORDED]
    assert sync().added == []


def test_a_tag_that_stays_excludes_a_node_again_after_an_operator_ended_its_exclusion(world, sync, inventory):
    inventory.opted_out_instances = {instance(world)}
    sync()
    assert node_of(world).ignored is not None
    wire_node_orders(world.app).end_ignore(KEY._replace(node="a"), OperatorOrder("ada"))
    assert node_of(world).ignored is None
    sync()
    assert node_of(world).ignored is not None
    inventory.opted_out_instances = set()
    sync()
    assert node_of(world).ignored is None


def test_failure_domains_that_could_not_be_read_are_read_by_a_later_sync(world, sync, inventory):
    inventory.has_topology = False
    new = world.ports.fleet.launch(GROUP)
    assert sync().added == [f"ip-{new[-4:]}"]
    assert dict(node_of(world, f"ip-{new[-4:]}").placement.domains) == {"zone": "use1-az1"}
    inventory.has_topology = True
    assert sync().updated == [f"ip-{new[-4:]}"]
    assert node_of(world, f"ip-{new[-4:]}").placement.domains["network_node"] == f"nn-{new[-1]}"
    assert sync().unchanged


def test_a_name_that_the_orchestrator_reports_later_leads_to_the_node(world, sync, node_listing):
    names = ("k8s-name", "k8s-name.internal")
    node_listing.instances = {instance(world): Instance(instance(world), names, {"zone": "us-east-1a"})}
    assert sync().updated == ["a"]
    assert sync().updated == []
    assert world.outcomes(world.message(XID_79, node="k8s-name.internal")) == [Outcome.RECORDED]
    assert node_of(world).placement.domains["network_node"]


def test_a_late_record_of_the_former_instance_has_no_effect_under_any_name(world, sync, node_listing):
    old = instance(world)
    node_listing.instances = {old: Instance(old, (f"hyperpod-{old}", "shared-name"))}
    sync()
    host, last_records_at = f"ip-{old[-4:]}", world.now
    _, new = replace_externally(world)
    node_listing.instances = {new: Instance(new, (f"hyperpod-{new}", "shared-name"))}
    assert sync().replaced_externally == ["a"]
    before = node_of(world)
    late = [
        world.message(XID_79, node=name, sent_at=last_records_at, instance_id=instance_id)
        for name, instance_id in [
            (host, None),
            (f"hyperpod-{old}", None),
            (old, None),
            (None, old),
            (f"{host}.internal", None),
        ]
    ]
    wire_ingest(world.app).ingest(late)
    after = node_of(world)
    assert (after.status, list(after.active()), after.case) == (before.status, [], before.case)
    assert not list(wire_rejects(world.app).list(KEY.cluster))


def test_a_node_without_an_instance_gets_the_next_new_one(world, sync):
    wire_registration(world.app).add_node(KEY.cluster, NewNode("c", group=GROUP))
    new = world.ports.fleet.launch(GROUP)
    assert sync().replaced_externally == ["c"]
    assert (instance(world, "c"), node_of(world, "c").status) == (new, NodeStatus.VALIDATING)


def test_an_instance_in_standby_keeps_its_node(world, sync, inventory, caplog):
    inventory.standby.add(instance(world))
    new = world.ports.fleet.launch(GROUP)
    with caplog.at_level(logging.INFO, logger="faultbridge"):
        result = sync()
    assert (result.gone, result.replaced_externally, result.added, result.waiting) == (["a"], [], [], [new])
    assert node_of(world).status is NodeStatus.HEALTHY
    (line,) = [line for line in caplog.records if line.message == "nodes_gone"]
    assert (line.cluster, line.nodes) == (KEY.cluster, ["a"])
    assert GROUP in line.reason


def test_a_missing_group_changes_no_node(world, sync, inventory):
    inventory.omitted_groups.add(GROUP)
    assert sync().gone == []


def test_an_unreadable_source_is_reported_and_logged_and_changes_nothing(world, sync, inventory, caplog):
    def fail(*_):
        raise Transient("EC2 does not answer")

    inventory.list_members = fail
    replace_externally(world)
    result = sync()
    assert (result.source_errors, result.replaced_externally) == (["EC2 does not answer"], [])
    (line,) = [line for line in caplog.records if line.message == "inventory_not_read"]
    assert (line.reason, line.cluster, line.levelname) == ("EC2 does not answer", KEY.cluster, "WARNING")


def test_a_status_report_that_cannot_be_read_is_reported_and_the_nodes_are_updated(world, sync, inventory):
    inventory.seam.before = raise_once(("inventory.provider_status", Transient("no status")))
    replace_externally(world)
    result = sync()
    assert (result.source_errors, result.replaced_externally) == (["no status"], ["a"])


@pytest.mark.parametrize(
    "error",
    [Transient("EC2 does not answer"), Misconfigured("no permission"), FaultbridgeError("HTTP 422"), Rejected("gone")],
)
def test_a_cluster_whose_source_fails_does_not_stop_the_sync_of_the_other_clusters(
    world, synchronizer, inventory, error
):
    list_members = inventory.list_members

    def fail_for_one(config, groups):
        if config.cluster == "a-first":
            raise error
        return list_members(config, groups)

    inventory.list_members = fail_for_one
    wire_registration(world.app).add_cluster(ClusterConfig("a-first"))
    wire_registration(world.app).add_node("a-first", NewNode("a-1", world.ports.fleet.launch("others"), "others"))
    replace_externally(world)
    found = {one.cluster: one for one in synchronizer.sync_all()}
    assert found["a-first"].source_errors == [str(error)]
    assert found[KEY.cluster].replaced_externally == ["a"]


def test_an_illegal_transition_is_a_bug_and_no_unread_source(sync, inventory):
    def fail(*_):
        raise IllegalTransition("healthy to provisioning by the inventory")

    inventory.list_members = fail
    with pytest.raises(IllegalTransition):
        sync()


def test_a_sync_can_be_limited_to_some_groups(world, sync):
    replace_externally(world)
    assert sync(["another"]).replaced_externally == []
    assert sync([GROUP]).replaced_externally == ["a"]


def test_an_instance_whose_name_is_in_use_is_refused_and_the_others_are_registered(world, sync, inventory, caplog):
    first, second = world.ports.fleet.launch(GROUP), world.ports.fleet.launch(GROUP)
    inventory.instance = lambda group, one: Instance(one, ({first: "a"}.get(one, "free"),), group=group)
    result = sync()
    assert (result.added, result.refused) == (["free"], {first: "node_exists"})
    assert second
    (line,) = [line for line in caplog.records if line.message == "node_refused"]
    assert (line.instance_id, line.cluster, line.levelname) == (first, KEY.cluster, "WARNING")
    assert "is registered already" in line.reason


def test_a_successor_that_backs_a_node_of_another_cluster_is_refused_and_the_others_are_attached(world, sync):
    for node in ("a", "b"):
        terminate(world, instance(world, node))
    other, free = (world.ports.fleet.launch(GROUP) for _ in range(2))
    registration = wire_registration(world.app)
    registration.add_cluster(ClusterConfig("another"))
    registration.add_node("another", NewNode("x", other, GROUP))
    result = sync()
    assert (result.refused, result.replaced_externally, result.source_errors) == ({other: "alias_taken"}, ["b"], [])
    assert instance(world, "b") == free


def test_a_host_name_that_another_instance_now_has_leads_to_that_instance(world, sync, inventory):
    old = instance(world)
    host = f"ip-{old[-4:]}"
    replace_externally(world)
    sync()
    new = world.ports.fleet.launch(GROUP)
    describe = inventory.instance

    def with_reused_name(group, one):
        found = describe(group, one)
        return replace(found, names=(found.name, host) if one == new else (found.name,))

    inventory.instance = with_reused_name
    assert sync().added == [f"ip-{new[-4:]}"]
    wire_ingest(world.app).ingest([world.message(XID_79, node=host)])
    assert list(node_of(world, f"ip-{new[-4:]}").active())
    assert not list(node_of(world).active())


def test_a_host_name_of_another_current_instance_is_not_taken_and_that_is_logged(world, sync, inventory, caplog):
    other = f"ip-{instance(world, 'b')[-4:]}"
    old, new = replace_externally(world)
    describe = inventory.instance

    def with_name_of_b(group, one):
        found = describe(group, one)
        return replace(found, names=(found.name, other)) if one == new else found

    inventory.instance = with_name_of_b
    with caplog.at_level(logging.INFO, logger="faultbridge"):
        assert sync().replaced_externally == ["a"]
    (line,) = [line for line in caplog.records if line.message == "alias_not_taken"]
    assert (line.node, line.instance_id) == ("a", new)
    assert other in line.reason
    assert old


def test_the_name_of_another_node_is_never_taken(world, sync, inventory):
    replace_externally(world)
    describe = inventory.instance
    inventory.instance = lambda group, one: replace(describe(group, one), names=(f"ip-{one[-4:]}", "b"))
    assert sync().replaced_externally == ["a"]
    wire_ingest(world.app).ingest([world.message(XID_79, node="b")])
    assert list(node_of(world, "b").active())
    assert not list(node_of(world).active())


def test_a_retired_node_takes_no_instance(world, sync):
    old = instance(world)
    wire_retirement(world.app).retire(KEY._replace(node="a"), OperatorOrder(None, "rack given up"))
    terminate(world, old)
    new = world.ports.fleet.launch(GROUP)
    assert sync().added == [f"ip-{new[-4:]}"]
    assert node_of(world).status is NodeStatus.RETIRED


def test_an_instance_whose_node_was_retired_is_not_registered_again(world, sync):
    wire_retirement(world.app).retire(KEY._replace(node="a"), OperatorOrder(None, "rack given up"))
    for _ in range(2):
        assert (sync().added, sync().nodes) == ([], 2)


def test_a_retired_node_gets_no_names_back(world, sync, node_listing):
    retired = instance(world)
    wire_retirement(world.app).retire(KEY._replace(node="a"), OperatorOrder(None, "rack given up"))
    node_listing.instances = {retired: Instance(retired, ("new-name",))}
    assert sync().updated == []
    for alias in (("instance", retired), ("name", f"{KEY.cluster}/new-name")):
        assert world.ports.table.get(keys.alias(*alias)) is None


def test_a_retired_node_counts_until_its_instance_leaves_the_group(world, sync):
    old = instance(world)
    wire_retirement(world.app).retire(KEY._replace(node="a"), OperatorOrder(None, "rack given up"))
    assert sync().nodes == 2
    terminate(world, old)
    sync()
    assert sync().nodes == 1


def test_the_instance_of_a_retired_node_that_was_in_standby_does_not_become_a_new_node(world, sync, inventory):
    kept = instance(world)
    wire_retirement(world.app).retire(KEY._replace(node="a"), OperatorOrder(None, "rack given up"))
    inventory.standby.add(kept)
    sync()
    inventory.standby.clear()
    nodes = {row["pk"] for row in world.ports.table.items()}
    sync()
    assert {row["pk"] for row in world.ports.table.items()} == nodes


def test_the_metadata_of_a_row_without_an_opt_out_is_not_new():
    assert new_metadata({"node": "a", "instance": "i-1"}, Instance("i-1")) is None


def test_an_instance_that_was_launched_in_the_second_of_the_first_read_of_its_group_joined_it():
    group = Group("workers", NOON + timedelta(milliseconds=500), (), {}, {})
    assert group.is_joined_by(Instance("i-1", launched_at=NOON))
    assert not group.is_joined_by(Instance("i-1", launched_at=NOON - timedelta(seconds=1)))


def test_the_timeline_of_a_retired_node_stays_known_to_the_archive_and_is_erased_with_its_cluster(world, sync):
    key = KEY._replace(node="a")
    gone = instance(world)
    for retire in (
        lambda: wire_retirement(world.app).without_successor(key, gone, "its group is complete"),
        lambda: wire_retirement(world.app).retire(KEY._replace(node="b"), OperatorOrder(None, "rack given up")),
    ):
        retire()
    config = wire_registration(world.app).cluster(KEY.cluster)
    streams = {stream.node for stream in streams_of(world.ports.table, world.app.append.stack, config)}
    assert streams == {None, "a", "b"}
    Erase(world.ports.table).erase(KEY.cluster)
    assert [row for row in world.ports.table.items() if str(row["pk"]).startswith("NODE#")] == []


def test_the_nodes_that_others_cordoned_are_recorded_without_an_entry_until_they_get_work_again(
    world, sync, node_listing
):
    def record(*, cordoned: bool) -> ClusterState:
        node_listing.instances = {instance(world): Instance(instance(world), cordoned=cordoned)}
        sync()
        return items.read_cluster(KEY.cluster, world.ports.table.get(keys.cluster_state(KEY.cluster)))

    before, during, after = (record(cordoned=one) for one in (False, True, False))
    assert [one.cordoned for one in (before, during, after)] == [(), (node_of(world).key.node,), ()]
    assert before.head.sequence == during.head.sequence == after.head.sequence
