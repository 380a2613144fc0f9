"""Each kind of shared cause is one incident: a rack that shows it at once is neither reset, rebooted nor replaced."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.enums import CaseStatus
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage import keys
from faultbridge.model.times import to_text
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.builders import KEY
from tests.scenarios.incidents.incidents import RACK, incidents, rack
from tests.scenarios.world import World
from tests.world import World as Installation

NAMES = tuple(f"n-{number:02}" for number in range(16))
NFS = "nfs: server 10.0.0.5 not responding, still trying"
HUNG = "INFO: task python:1234 blocked for more than 120 seconds."


def lustre(target: str, server: str = "10.1.0.9@tcp") -> str:
    return (
        f"Lustre: {target}-osc-ffff8881: Connection to {target} (at {server}) was lost; in progress operations using"
        " this service will wait for recovery to complete"
    )


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("cloud.instance_impaired", "ec2-status"),
        ("smi.no_devices", "nvidia-smi-xml"),
        ("sxid.20034", "kernel-log"),
        ("xid.74", "kernel-log"),
        ("dcgm.nvlink_down", "dcgm-health"),
        ("host.overheated", "kernel-log"),
        ("host.cooling_failed", "bmc-events"),
        ("host.power_failed", "bmc-events"),
        ("host.file_server_lost", "kernel-log"),
    ],
)
def test_a_rack_with_a_shared_cause_is_one_incident_and_no_node_of_it_is_repaired(code: str, source: str) -> None:
    catalog, policy = load_catalog(), default_policy()
    applied = {"rules": policy.rules, "breakers": policy.breakers, "limits": policy.limits}
    world = World(nodes=64, domain=rack, catalog=catalog, **applied)
    for node in RACK:
        world.fault(node, code, source=source, action=None)
    world.process_entries(minutes=50)
    (incident,) = incidents(world)
    assert (incident.domain.text, incident.affected) == ("rack rack-1", 8)
    assert incident.family is catalog.rows[code].family
    assert (world.released_instances(), world.restarter.restarted) == ([], [])
    held = {case.status for case in (world.node(number).live_case for number in RACK) if case}
    assert held <= {CaseStatus.ABSORBED}


class StorageWorld(Installation):
    """An installation whose nodes lose a file server."""

    def __init__(self) -> None:
        super().__init__(nodes=NAMES)

    def log(self, *batches: dict[str, str]) -> None:
        """Send lines of the kernel log of each node, and run the sweep a minute later."""
        head = f"kern  :err   : {to_text(self.now).replace('.', ',')} "
        for lines in batches:
            self.outcomes(*(self.message(head + line, node=node) for node, line in lines.items()))
        self.ports.clock.advance(timedelta(minutes=1))
        assert not wire_sweep(self.app).run().failures

    def incidents(self) -> list[Incident]:
        rows = self.ports.table.query(keys.cluster_partition(KEY.cluster), prefix=stored_incidents.INCIDENT).items
        return [stored_incidents.read_incident(row) for row in rows]

    def texts(self) -> list[str]:
        """Return the cause in each entry of an incident, oldest first."""
        entries = self.ports.table.query(f"CLUSTER#{KEY.cluster}", prefix="ENTRY#").items
        bodies = (json.loads(row["body"]) for row in entries)
        return [body["data"]["cause"]["text"] for body in bodies if "cause" in body["data"] and "added" in body["data"]]


def test_nodes_that_lose_one_file_server_are_one_incident_that_names_it() -> None:
    world = StorageWorld()
    world.log(dict.fromkeys(NAMES, NFS))
    (incident,) = world.incidents()
    assert (incident.family, incident.subject, incident.affected) == ("storage", "10.0.0.5", 16)


def test_nodes_that_lose_different_targets_of_one_storage_server_name_that_server() -> None:
    world = StorageWorld()
    world.log({node: lustre(f"lfs-OST{number:04}") for number, node in enumerate(NAMES)})
    (incident,) = world.incidents()
    assert incident.subject == "10.1.0.9@tcp"


def test_a_later_fault_that_names_nothing_does_not_hide_the_file_server() -> None:
    world = StorageWorld()
    world.log(dict.fromkeys(NAMES, NFS), dict.fromkeys(NAMES, HUNG))
    (incident,) = world.incidents()
    assert incident.subject == "10.0.0.5"


def test_an_incident_names_the_file_server_as_soon_as_its_nodes_do() -> None:
    world = StorageWorld()
    world.log(dict.fromkeys(NAMES, HUNG))
    (incident,) = world.incidents()
    assert incident.subject is None
    world.log(dict.fromkeys(NAMES, NFS))
    (incident,) = world.incidents()
    assert incident.subject == "10.0.0.5"
    assert [("10.0.0.5" in text) for text in world.texts()] == [False, True]
