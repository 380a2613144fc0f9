"""Nothing of an erased cluster is left in the table, and nothing of another is touched."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Key, Put
from faultbridge.record.history import DeviceHistory
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.registry.retirement import Retirement
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ops.erase import Erase
from faultbridge.serve.wiring.services import wire_registration
from tests.archive.world import N1, ArchiveWorld
from tests.builders import KEY
from tests.cli.builders import CARD, UUID
from tests.scenarios.world import CLUSTER
from tests.scenarios.world import World as Fleet
from tests.sim.fakes import Call
from tests.world import World


def world() -> ArchiveWorld:
    made = ArchiveWorld(nodes_per_shard=1)
    made.record_history()
    made.registration.add_cluster(ClusterConfig("other"))
    made.registration.add_node("other", NewNode("n-1", "i-0bbbbbbbbbbbbbbb1", aliases=("alias",)))
    return made


def test_nothing_of_an_erased_cluster_is_left_and_another_is_untouched() -> None:
    made = world()
    made.note(N1, "of a job", data={"kind": "operator", "text": "x", "job_id": "4711"})
    others = [item for item in made.table.items() if "train-a" not in str(item)]
    assert Erase(made.table).erase("train-a") > 20
    assert list(made.table.items()) == others


def test_an_erasure_that_is_interrupted_after_each_deletion_is_completed_when_it_is_repeated() -> None:
    made = world()
    made.observe_faults(N1)
    case = made.append.read(N1).live_case
    assert case is not None
    made.table.write(Put({**keys.page_notification(case.id, "opened")._asdict(), "cluster": "train-a"}))
    Retirement(made.table, made.append, made.rulebook).retire(N1, OperatorOrder("ada"))
    made.note(N1, "of a job", data={"kind": "operator", "text": "x", "job_id": "4711"})
    others = [item for item in made.table.items() if "train-a" not in str(item)]

    deleted: set[Key] = set()

    def interrupt(call: Call) -> None:
        if call.name == "table.write" and call.argument.key not in deleted:
            deleted.add(call.argument.key)
            raise Transient("lost")

    made.table.seam.after = interrupt
    while made.table.get(keys.cluster_config("train-a")) is not None:
        with pytest.raises(Transient):
            Erase(made.table).erase("train-a")
    assert list(made.table.items()) == others


def test_an_instance_that_now_backs_a_node_of_another_cluster_still_leads_to_that_node() -> None:
    made = world()
    incarnation = made.append.read(N1).incarnation
    assert incarnation is not None
    Retirement(made.table, made.append, made.rulebook).retire(N1, OperatorOrder("ada"))
    made.registration.add_node("other", NewNode("n-2", incarnation.instance_id))
    alias = keys.alias("instance", str(incarnation.instance_id))
    before = made.table.get(alias)
    Erase(made.table).erase("train-a")
    assert before is not None
    assert made.table.get(alias) == before


def test_a_cluster_with_a_live_case_is_not_erased() -> None:
    made = world()
    made.observe_faults(N1)
    before = list(made.table.items())
    with pytest.raises(Rejected, match="cluster_lives"):
        Erase(made.table).erase("train-a")
    assert list(made.table.items()) == before


def test_what_is_not_registered_cannot_be_erased() -> None:
    with pytest.raises(Rejected, match="unknown_cluster"):
        Erase(world().table).erase("nowhere")


def report_card(world: World, cluster: str, card: str = CARD) -> None:
    found = wire_ingest(world.app).ingest([world.message(card, source="nvidia-smi-xml", cluster=cluster)])
    assert not found.reasons


def test_the_serial_number_of_a_uuid_is_erased_with_the_last_cluster_that_saw_the_device() -> None:
    made = World()
    registration = wire_registration(made.app)
    registration.add_cluster(ClusterConfig("other"))
    registration.add_node("other", NewNode(KEY.node, made.ports.fleet.launch("other-group")))
    made.ports.clock.advance(timedelta(minutes=5))
    report_card(made, KEY.cluster)
    report_card(made, "other")
    erase = Erase(made.ports.table)
    erase.erase(KEY.cluster)
    assert made.ports.table.get(keys.device_link(UUID)) is not None
    assert [one.cluster for one in DeviceHistory(made.ports.table)(UUID)] == ["other"]
    erase.erase("other")
    assert [item for item in made.ports.table.items() if UUID in str(item) or "1653" in str(item)] == []


def test_the_serial_number_of_a_uuid_is_erased_although_another_cluster_saw_another_device_with_this_number() -> None:
    made = World()
    registration = wire_registration(made.app)
    registration.add_cluster(ClusterConfig("other"))
    registration.add_node("other", NewNode(KEY.node, made.ports.fleet.launch("other-group")))
    made.ports.clock.advance(timedelta(minutes=5))
    report_card(made, KEY.cluster)
    report_card(made, "other", CARD.replace(UUID, UUID.replace("5b1f2c3d", "6c2f3d4e")))
    Erase(made.ports.table).erase(KEY.cluster)
    assert made.ports.table.get(keys.device_link(UUID)) is None


def test_the_aliases_of_instances_that_were_replaced_are_erased() -> None:
    made = Fleet()
    made.fault_until_resolved()
    (former,) = made.node().former_instances
    assert made.table.get(keys.alias("instance", former)) is not None
    Erase(made.table).erase(CLUSTER)
    assert made.table.get(keys.alias("instance", former)) is None
