"""Forged records: no way to send and no mode accepts what a sender says about a node that it is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faultbridge.decide.normalize.trust import EVENT_BUS
from faultbridge.model.cluster.config import HYPERPOD, Mode
from faultbridge.model.storage import keys
from faultbridge.model.storage.wire.message import join_records
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_registration, wire_rejects
from tests.builders import KEY
from tests.ingest.builders import SENDER_PROOF, SWEEP
from tests.world import GROUP, XID_79, World

NEIGHBOR = KEY._replace(node="neighbor")
NODE_ROLE = "AROANODE"
ON_HYPERPOD = {"provider": HYPERPOD, "hyperpod_cluster": "train-a", "verifier": HYPERPOD, "restarter": HYPERPOD}


def instance(world: World, node: str = KEY.node) -> str:
    found = world.node(KEY._replace(node=node)).incarnation
    assert found is not None
    return str(found.instance_id)


SENDERS: dict[str, Callable[[World], str]] = {
    "the instance role of another node": lambda world: f"{NODE_ROLE}:{instance(world, NEIGHBOR.node)}",
    "a node role with a session that is no instance": lambda _: f"{NODE_ROLE}:botocore-session-1",
    "another role with a session named like the node": lambda world: f"AROAOTHER:{instance(world)}",
    "a user named like the node": lambda world: f"AIDAUSER:{instance(world)}",
    "an EKS pod with IRSA that is not listed": lambda _: "AROAPOD:botocore-session-1",
    "an EKS pod with Pod Identity that is not listed": lambda _: "AROAPOD:eks-train-a-agent-0b1c2d3e",
    "a HyperPod session that is not listed": lambda _: "AROAPOD:SageMaker",
    "a listed role with another session": lambda _: "AROALISTED:intruder",
    "a sender that another cluster lists": lambda _: "AROAELSEWHERE:collector",
    "a message that names no sender": lambda _: "",
}


def forgeries(world: World, sender: str) -> list[Delivery]:
    """Return forged messages of a sender about the node: by each name, and with a stated sender that is trusted."""
    victim = instance(world)
    about = [
        {"node": KEY.node},
        {"node": None, "instance_id": victim},
        {"node": f"hyperpod-{victim}"},
        {"node": NEIGHBOR.node, "instance_id": victim},
        {"sender": SWEEP},
        {"sender": EVENT_BUS},
        {"sender": f"{NODE_ROLE}:{victim}"},
    ]
    return [replace(world.message(XID_79, **names), sender=sender or None) for names in about]


def state_of(world: World) -> list[object]:
    return [row for row in world.ports.table.items() if str(row["pk"]).startswith(keys.node_partition(KEY))]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("way", SENDERS)
@pytest.mark.parametrize("provider", ["ec2-auto-scaling", HYPERPOD])
def test_a_forged_record_is_rejected_in_every_mode_and_changes_nothing(way: str, mode: Mode, provider: str) -> None:
    registered = ON_HYPERPOD if provider == HYPERPOD else {}
    world = World(
        nodes=(KEY.node, NEIGHBOR.node),
        settings=SENDER_PROOF,
        mode=mode,
        node_roles=(NODE_ROLE,),
        trusted_senders=("AROALISTED:collector",),
        **registered,
    )
    wire_registration(world.app).add_cluster(
        replace(world.config, cluster="train-b", expected=0, trusted_senders=("AROAELSEWHERE:*",))
    )
    before = state_of(world)
    forged = forgeries(world, SENDERS[way](world))
    result = wire_ingest(world.app).ingest(forged)
    assert sorted(result.reasons.values()) == ["untrusted"] * len(forged)
    assert state_of(world) == before
    assert world.ports.workflow.started == {}


def test_a_forged_record_behind_a_true_one_of_the_same_message_is_rejected_alone() -> None:
    world = World(nodes=(KEY.node, NEIGHBOR.node), settings=SENDER_PROOF, node_roles=(NODE_ROLE,))
    before = state_of(world)
    texts = [world.message(XID_79, node=node).text for node in (NEIGHBOR.node, KEY.node)]
    shared = replace(world.message(), text=join_records(texts), sender=f"{NODE_ROLE}:{instance(world, NEIGHBOR.node)}")
    result = wire_ingest(world.app).ingest([shared])
    assert list(result.reasons.values()) == ["untrusted"]
    assert state_of(world) == before
    assert world.node(NEIGHBOR).conditions


@pytest.mark.parametrize("stated", [EVENT_BUS, SWEEP])
def test_a_forged_sender_gains_nothing_when_its_reject_is_retried(stated: str) -> None:
    world = World(nodes=(NEIGHBOR.node,), settings=SENDER_PROOF, node_roles=(NODE_ROLE,))
    real = f"{NODE_ROLE}:{instance(world, NEIGHBOR.node)}"
    forged = replace(world.message(XID_79, cluster="train-b", sender=stated), sender=real)
    assert list(wire_ingest(world.app).ingest([forged]).reasons.values()) == ["unknown_cluster"]
    (reject,) = wire_rejects(world.app).list(keys.NO_CLUSTER)
    registration = wire_registration(world.app)
    registration.add_cluster(replace(world.config, cluster="train-b", expected=0))
    victim = registration.add_node("train-b", NewNode(KEY.node, world.ports.fleet.launch(GROUP), group=GROUP)).key
    wire_rejects(world.app).retry(reject)
    (again,) = world.ports.queue.receive()
    result = wire_ingest(world.app).ingest([Delivery("again", again.body, world.now, sender=SWEEP)])
    assert (reject.sender, list(result.reasons.values())) == (real, ["untrusted"])
    assert world.node(victim).conditions == {}


SYSLOG = "Feb  3 12:00:00 node-1"
SWITCH_ERROR = (
    "nv-fabricmanager[99]: detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:C1:00.0"
)


@pytest.mark.parametrize("settings", [SENDER_PROOF, {}])
@pytest.mark.parametrize(
    ("source", "line", "claimed"),
    [
        ("kernel-log", f"{SYSLOG} kernel: {XID_79}", True),
        ("kernel-log", f"{SYSLOG} kernel[4711]: {XID_79}", True),
        ("kernel-log", f"2026-02-03T12:00:00.000000+00:00 node-1 kernel: {XID_79}", True),
        ("fabric-manager-log", f"{SYSLOG} {SWITCH_ERROR}", True),
        ("kernel-log", f"3,1234,8123617543,-;{XID_79}", False),
        ("kernel-log", f'{{"_TRANSPORT": "kernel", "MESSAGE": "{XID_79}"}}', False),
    ],
)
def test_text_of_syslog_is_a_claim_also_if_the_node_itself_sends_it(source, line, claimed, settings) -> None:
    world = World(settings=settings, node_roles=(NODE_ROLE,))
    record = replace(world.message(line, source=source), sender=f"{NODE_ROLE}:{instance(world)}")
    wire_ingest(world.app).ingest([record])
    (condition,) = world.node().active()
    assert condition.claimed is claimed
