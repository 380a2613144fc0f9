"""The rare circumstances of a run are those of a real installation: its webhooks, versions and instances."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import unpack
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, arrival, case, fault, folded, node
from tests.sim.environment.samples import alert_group
from tests.sim.fault_injection import NO_FAULTS
from tests.sim.invariants.view import SystemView
from tests.sim.simulated_ports import BEARER, SIGNER
from tests.sim.simulated_system import REPAIRED, SimulatedSystem
from tests.sim.situations.versions import ADDED, Version, written_by
from tests.sim.workers import PROVING


def system_with_claims() -> SimulatedSystem:
    system = SimulatedSystem(0, NO_FAULTS)
    system.workers.settings = PROVING
    system.build(nodes=2, watched=1, scheduler=True)
    return system


def stored(version: Version | None, state: NodeState) -> tuple[NodeState, items.Item]:
    """Return the state that this version reads, and the item that a process of another version wrote."""
    (put,) = written_by(version, [Put(items.state_item(state, NOON))])
    assert isinstance(put, Put)
    return items.read_state(state.key, put.item), put.item


def document_of(item: items.Item) -> dict[str, Any]:
    return unpack(dict[str, Any], item["state"])


FAULTY = folded(node(noted={"a note": "2026-02-03"}, isolation_tries=3), arrival(fault())).state


def test_this_version_reads_what_a_newer_one_wrote_and_writes_its_attributes_back() -> None:
    read, item = stored(Version.NEWER, FAULTY)
    assert (read.head, read.status, read.noted) == (FAULTY.head, FAULTY.status, FAULTY.noted)
    assert [(one.code, one.since) for one in read.active()] == [(one.code, one.since) for one in FAULTY.active()]
    document = document_of(item)
    assert (document[ADDED], [one[ADDED] for one in document["conditions"].values()]) == ({"kind": "unknown"}, [1])
    _, rewritten = stored(None, read)
    assert document_of(rewritten) == document


def test_a_newer_version_adds_its_attribute_to_both_items_of_a_case() -> None:
    waiting = case()
    state = replace(FAULTY, case=waiting)
    writes = [Put(items.state_item(state, NOON)), Put(items.case_item(waiting, state.key, 0, NOON))]
    of_node, of_case = (one.item for one in written_by(Version.NEWER, writes) if isinstance(one, Put))
    assert document_of(of_node)["case"] == of_case["case"]
    assert ADDED in document_of(of_node)["case"]


def test_an_older_version_writes_no_attribute_of_this_one_and_keeps_all_others() -> None:
    read, _ = stored(Version.OLDER, FAULTY)
    assert (read.noted, read.isolation_tries) == ({}, 0)
    assert (read.conditions, read.head, read.case) == (FAULTY.conditions, FAULTY.head, FAULTY.case)


def test_processes_whose_version_stays_the_same_keep_their_caches() -> None:
    workers = SimulatedSystem(0, NO_FAULTS).workers
    before = workers.application("ingest-0"), workers.application("sweep")
    workers.deploy({"sweep": Version.OLDER})
    assert workers.application("ingest-0") is before[0]
    assert workers.application("sweep") is not before[1]


@pytest.mark.parametrize("sender", [SIGNER, BEARER])
def test_a_post_to_the_webhook_arrives_as_a_claim_of_the_node_that_it_names(sender: str) -> None:
    system = system_with_claims()
    now = system.clock.now()
    body = alert_group(["node-1"], now, resolved=False, xid=119, gpu=1)
    assert system.workers.post(sender, "alertmanager", body, now)
    assert system.workers.post(sender, "alertmanager", body, now)  # a repetition is known
    system.queue.poll_soon()
    system.pass_time(timedelta(minutes=5))

    (state,) = [one for one in SystemView(system).nodes if one.key.cluster == REPAIRED and one.conditions]
    (condition,) = state.active()
    assert (state.key.node, condition.code, condition.component.pci) == ("node-1", "xid.119", GPU.pci)
    assert (condition.claimed, condition.sources) == (True, {"alertmanager"})


def test_a_post_with_an_old_signature_is_refused() -> None:
    system = system_with_claims()
    hour_ago = system.clock.now() - timedelta(hours=1)
    assert not system.workers.post(SIGNER, "alertmanager", b"{}", hour_ago)
    assert not system.ports.queue.messages


def test_an_instance_shows_its_last_fault_until_it_restarts_and_some_instances_do_not_answer() -> None:
    system = SimulatedSystem(0, NO_FAULTS)
    system.build(nodes=12, watched=1, scheduler=True)
    answers = {one: system.truth.host_output(one) for one in system.fleet.instances}
    silent = [one for one, output in answers.items() if output is None]
    reached = next(one for one in answers if one not in silent)
    assert silent
    system.truth.show(reached, 79, 0)
    shown = system.truth.host_output(reached)
    assert shown is not None
    assert b"Xid" in shown.kernel_log
    assert b"GPU is lost" in shown.nvidia_smi
    system.health.on_restart(reached)
    assert system.truth.host_output(reached) == answers[reached]
