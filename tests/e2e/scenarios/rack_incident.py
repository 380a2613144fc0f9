"""Eight nodes lose their links at once: in one rack, and in eight racks; some of them have a fault of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge.model.cluster.config import DeclaredDomain
from faultbridge.model.enums import CaseStatus, DomainKind
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import GPU_LOST
from tests.waiting import eventually

PER_RACK = 8
RACK = tuple(f"node-{number:03}" for number in range(PER_RACK))
OWN_FAULT = RACK[:2]

LINK = {"code": "net.link_down", "component": {"type": "nic", "name": "ib0"}}


@dataclass(frozen=True)
class RackIncident:
    """What was recorded while the incident was open, and the answer of the API that closed it."""

    cluster: str
    before: dict[str, str]
    while_open: dict[str, str]
    statuses_while_open: set[str]
    urgent_while_open: list[dict[str, Any]]
    closed: dict[str, Any]


@dataclass(frozen=True)
class EightRacks:
    """A cluster in which one node of each of eight racks failed, with the instances of these nodes before."""

    cluster: str
    before: dict[str, str]


@pytest.fixture(scope="session")
def failing_racks(installation: Installation) -> EightRacks:
    """Let one node in each of eight racks lose its link and a GPU; their repairs start."""
    nodes = 8 * PER_RACK
    cluster = installation.register_cluster(nodes, fleet=nodes)
    # Nodes with neighboring instance ids are below one switch of the embedded stack, so a rack consists of those.
    instances = _instances(installation, cluster)
    by_instance = sorted(instances, key=lambda node: instances[node])
    racks = [by_instance[first : first + PER_RACK] for first in range(0, nodes, PER_RACK)]
    declared = (DeclaredDomain(DomainKind.RACK, f"r-{number}", ",".join(rack)) for number, rack in enumerate(racks))
    wire_registration(installation.application).set_cluster(cluster, {"domains": tuple(declared)})
    affected = [rack[0] for rack in racks]
    _lose_gpus(installation, cluster, affected)
    _report(installation, cluster, affected, {"kind": "fault", "message": "link is down", **LINK})
    return EightRacks(cluster, {node: instances[node] for node in affected})


@pytest.fixture(scope="session")
def eight_racks(installation: Installation, failing_racks: EightRacks) -> EightRacks:
    """Wait for the repairs in eight racks."""
    cluster, repaired = failing_racks.cluster, [CaseStatus.RESOLVED] * len(failing_racks.before)
    eventually(lambda: _statuses(installation, cluster) == repaired, 300, lambda: _statuses(installation, cluster))
    return failing_racks


@pytest.fixture(scope="session")
def rack_incident(installation: Installation) -> RackIncident:
    """Let a rack fail, restore its links, and close its incident over HTTP."""
    cluster = installation.register_cluster(PER_RACK, fleet=PER_RACK)
    rack = DeclaredDomain(DomainKind.RACK, "r-7", "node-[000-007]")
    wire_registration(installation.application).set_cluster(cluster, {"domains": (rack,)})
    before = _instances(installation, cluster)
    _report(installation, cluster, RACK, {"kind": "fault", "message": "link is down", **LINK})
    eventually(lambda: _statuses(installation, cluster) == [CaseStatus.ABSORBED] * PER_RACK, 60)
    _lose_gpus(installation, cluster, OWN_FAULT)
    eventually(lambda: all("xid.79" in _codes(installation, cluster, node) for node in OWN_FAULT), 60)
    installation.run_sweep()
    while_open = _instances(installation, cluster)
    statuses = {status.value for status in _statuses(installation, cluster)}
    (incident,) = installation.call_api(f"/clusters/{cluster}/incidents")["items"]
    urgent = eventually(lambda: installation.urgent.pages(cluster), 60)
    _report(installation, cluster, RACK, {"kind": "clear", "message": "link is up", **LINK})
    eventually(lambda: not any("net.link_down" in _codes(installation, cluster, node) for node in RACK), 60)
    path = f"/clusters/{cluster}/incidents/{incident['incident_id']}/close"
    closed = installation.call_api(path, {"reason": "the switch was restarted"})
    # Any sweep releases the cases, the requested one or a scheduled one.
    installation.request_sweep()
    eventually(lambda: CaseStatus.ABSORBED not in _statuses(installation, cluster), 120)
    installation.wait_until_idle(cluster)
    return RackIncident(cluster, before, while_open, statuses, list(urgent), closed)


def _report(installation: Installation, cluster: str, nodes: Iterable[str], observation: dict[str, Any]) -> None:
    body = json.dumps(observation).encode()
    installation.send([RawInput("faultbridge", cluster, body, node=node) for node in nodes])


def _lose_gpus(installation: Installation, cluster: str, nodes: Iterable[str]) -> None:
    installation.send([RawInput("kernel-log", cluster, GPU_LOST.encode(), node=node) for node in nodes])


def _instances(installation: Installation, cluster: str) -> dict[str, str]:
    states = installation.states(cluster).items()
    return {node: str(state.incarnation and state.incarnation.instance_id) for node, state in states}


def _codes(installation: Installation, cluster: str, node: str) -> set[str]:
    return {condition.code for condition in installation.states(cluster)[node].active()}


def _statuses(installation: Installation, cluster: str) -> list[CaseStatus]:
    return [case.status for case in installation.cases(cluster)]
