"""Limits by node: what one record says about many nodes is limited for each node, never for the record."""

from __future__ import annotations

import json

import pytest

from faultbridge.model.enums import NodeStatus
from faultbridge.model.records import Outcome
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.world import World


def alert_post(world: World, nodes: int, gpus: int = 1) -> Delivery:
    """Return an Alertmanager post about GPUs of many nodes, with the labels that dcgm-exporter adds."""
    alerts = [
        {
            "status": "firing",
            "labels": {
                "alertname": "DCGMXid",
                "xid": "79",
                "gpu": str(gpu),
                "UUID": f"GPU-{node:08x}-{gpu:04x}-0000-0000-000000000000",
                "pci_bus_id": f"00000000:{gpu:02X}:00.0",
                "Hostname": f"n-{node}",
                "node": f"n-{node}",
                "severity": "critical",
            },
            "annotations": {"summary": "Xid 79"},
            "startsAt": "2026-02-03T11:59:00Z",
            "fingerprint": f"{node:08x}{gpu:08x}",
        }
        for node in range(nodes)
        for gpu in range(gpus)
    ]
    body = {"version": "4", "groupKey": "g", "status": "firing", "receiver": "r", "alerts": alerts}
    return world.message(json.dumps(body), source="alertmanager", node=None)


@pytest.mark.parametrize("number", [64, 65, 100])
def test_one_alert_post_about_many_nodes_degrades_every_one_of_them(number: int) -> None:
    world = World(nodes=tuple(f"n-{node}" for node in range(number)))
    assert world.outcomes(alert_post(world, number)) == [Outcome.RECORDED]
    found = {world.node(KEY._replace(node=f"n-{node}")).status for node in range(number)}
    assert found == {NodeStatus.DEGRADED}


def test_in_a_post_about_two_nodes_only_the_one_with_too_many_faults_has_a_flood() -> None:
    world = World(nodes=("n-0", "n-1"))
    one, many = alert_post(world, 1), alert_post(world, 1, gpus=70)
    alerts = [alert for post in (one, many) for alert in json.loads(json.loads(post.text)["body"])["alerts"]]
    for alert in alerts[:1]:
        alert["labels"] |= {"node": "n-1", "Hostname": "n-1"}
    body = {"version": "4", "groupKey": "g", "status": "firing", "receiver": "r", "alerts": alerts}
    assert world.outcomes(world.message(json.dumps(body), source="alertmanager", node=None)) == [Outcome.RECORDED]
    flooded = world.node(KEY._replace(node="n-0")).conditions
    assert "sensor.probe_failed@node" in flooded
    assert sum(condition.code == "xid.79" for condition in flooded.values()) == 63
    assert [condition.code for condition in world.node(KEY._replace(node="n-1")).active()] == ["xid.79"]
