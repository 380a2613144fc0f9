"""Beside running work, a claim is checked by what its instance shows: the kernel log and `nvidia-smi`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, Resolution, WaitingFor
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.compute import HostOutput
from tests.builders import GPU, OTHER_GPU
from tests.scenarios.world import World
from tests.sim.environment.samples import kernel_line, nvidia_smi_xml
from tests.sim.fakes import Call

HEALTHY_GPU, LOST_GPU = "", "lost"


def busy_world(nodes: int = 1) -> World:
    """A world whose nodes run jobs for a day."""
    world = World(nodes=nodes, orchestrated=True, catalog=load_catalog())
    world.policy = default_policy()
    for number in range(1, nodes + 1):
        world.orchestrator.busy_until[f"node-{number}"] = world.clock.now() + timedelta(hours=24)
    return world


def shows(
    world: World, *lines: bytes, smi: str | None = HEALTHY_GPU, since: float = 24, clock: float = 0
) -> Callable[[str], HostOutput]:
    """What each instance shows: lines of the kernel, complete for the last `since` hours, and `nvidia-smi`.

    With `smi` None, `nvidia-smi` does not answer. The clock of the instance is `clock` hours ahead.
    """

    def output(_instance: str) -> HostOutput:
        now = world.clock.now() + timedelta(hours=clock)
        first = now - timedelta(hours=since)
        log = f"{first:%Y-%m-%dT%H:%M:%S,%f}+00:00 Linux version 6.1\n".encode() + b"".join(lines)
        return HostOutput(None, log, first, b"" if smi is None else nvidia_smi_xml(smi, 1, now))

    return output


def shows_no_log(world: World) -> Callable[[str], HostOutput]:
    """What an instance shows whose kernel log cannot be read."""
    return lambda _instance: HostOutput(None, nvidia_smi=nvidia_smi_xml(HEALTHY_GPU, 1, world.clock.now()))


def claimed(world: World, code: str = "xid.79", **others: object) -> None:
    """Claim a fault of the node, and let four minutes pass: the check ends, and the next sweep decides."""
    world.claim(code=code, **others)
    world.process_entries()
    world.advance_minutes(4)


def checks(world: World) -> int:
    return len(world.collector.read_at)


def is_untouched(world: World) -> bool:
    """Whether no work was evicted, and no diagnostics, repair or release happened."""
    called = {call.name for call in world.seam.calls}
    destructive = {"orchestrator.drain", "verifier.start", "restarter.restart", "provider.replace"}
    return not called & destructive


def test_a_claim_that_the_instance_does_not_show_is_refuted_beside_the_work() -> None:
    world = busy_world()
    world.collector.outputs = shows(world)
    claimed(world)

    assert (world.case().status, world.case().resolution) == (CaseStatus.RESOLVED, Resolution.RECOVERED)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert is_untouched(world)
    reasons = [body["data"].get("reason") for body in world.bodies()]
    assert reasons.count("refuted by the health snapshot of claim-check") == 1


def test_the_source_of_refuted_claims_is_named_once_and_its_next_claims_start_no_check() -> None:
    world = busy_world()
    world.collector.outputs = shows(world)
    for _ in range(4):
        claimed(world, source="alertmanager")
        world.advance_minutes(15)

    named = [body["data"] for body in world.bodies(None) if body["data"].get("kind") == "claims"]
    assert [(one["from"], one["to"], one["source"]) for one in named] == [("accepted", "damped", "alertmanager")]
    assert checks(world) == 1
    assert is_untouched(world)


@pytest.mark.parametrize("code", ["xid.95", "xid.48"])
def test_a_claim_that_the_kernel_log_or_nvidia_smi_covers_is_refuted(code: str) -> None:
    world = busy_world()
    world.collector.outputs = shows(world)
    claimed(world, code)
    assert world.case().status is CaseStatus.RESOLVED


def test_a_claim_that_the_kernel_log_shows_is_proven_and_its_work_is_drained() -> None:
    world = busy_world()
    world.collector.outputs = shows(world, kernel_line(79, 1, world.clock.now() - timedelta(minutes=2)))
    claimed(world, source="alertmanager")

    (condition,) = world.node().active()
    assert (condition.claimed, condition.sources) == (False, {"alertmanager", "kernel-log"})
    world.until(lambda: "orchestrator.drain" in {call.name for call in world.seam.calls}, minutes=10)


def test_a_claim_that_nvidia_smi_shows_is_proven() -> None:
    world = busy_world()
    world.collector.outputs = shows(world, smi=LOST_GPU)
    claimed(world, source="alertmanager")
    (condition,) = world.node().active()
    assert (condition.claimed, condition.sources) == (False, {"alertmanager", "nvidia-smi-xml"})


def test_the_claimed_fault_of_another_gpu_is_recorded_and_refutes_no_claim() -> None:
    world = busy_world()
    world.collector.outputs = shows(world, kernel_line(79, 0, world.clock.now()))
    claimed(world, source="alertmanager")
    active = {one.component.pci: one.claimed for one in world.node().active()}
    assert active == {GPU.pci: True, OTHER_GPU.pci: False}


def test_what_an_instance_shows_beside_the_claim_is_not_reported() -> None:
    world = busy_world()
    world.collector.outputs = shows(world, kernel_line(48, 0, world.clock.now()), smi="heat")
    claimed(world)
    assert list(world.node().active()) == []
    assert world.case().status is CaseStatus.RESOLVED


NO_ANSWERS = {
    "no answer": lambda _world: lambda _instance: None,
    "no nvidia-smi": lambda world: shows(world, smi=None),
    "no kernel log": shows_no_log,
    "a short log": lambda world: shows(world, since=0.5),
    "an old fault": lambda world: shows(world, kernel_line(119, 1, world.clock.now() - timedelta(hours=3))),
    "a clock that is wrong": lambda world: shows(world, clock=-3, since=30),
}


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_claim_waits_as_before_if_the_instance_shows_nothing_certain(
    answer: Callable[[World], Callable[[str], HostOutput | None]],
) -> None:
    world = busy_world()
    world.collector.outputs = answer(world)
    claimed(world, "xid.119", source="alertmanager")
    world.advance_minutes(30)

    assert (world.case().status, world.case().waiting_for) == (CaseStatus.QUEUED, WaitingFor.IDLE)
    assert "alertmanager" in {source for one in world.node().active() if one.claimed for source in one.sources}
    assert is_untouched(world)
    assert checks(world) == 1
    assert len(world.seam.named("collector.read")) <= 2


def test_a_call_that_fails_is_repeated_and_fails_no_sweep() -> None:
    world = busy_world()
    world.collector.outputs = shows(world)
    fails = [True]

    def fail(call: Call) -> None:
        if call.name == "collector.read" and fails[0]:
            raise Transient("the service is busy")

    world.seam.before = fail
    world.claim()
    world.process_entries()
    swept = world.advance_minutes(5)
    assert (swept.failures, world.case().status) == ([], CaseStatus.QUEUED)
    fails[0] = False
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=5)


def test_a_check_that_no_retry_can_make_succeed_is_tried_once() -> None:
    world = busy_world()

    def fail(call: Call) -> None:
        if call.name == "collector.read":
            raise Misconfigured("the role may send no commands")

    world.seam.before = fail
    world.claim()
    world.process_entries()
    swept = world.advance_minutes(5)
    assert (swept.failures, len(world.seam.named("collector.read"))) == ([], 1)


def test_a_fault_that_an_instance_dates_in_the_future_happened_when_it_was_read() -> None:
    world = busy_world()
    world.collector.outputs = shows(world, kernel_line(79, 1, world.clock.now() + timedelta(hours=1)))
    claimed(world, source="alertmanager")
    (condition,) = world.node().active()
    assert not condition.claimed
    assert max(one.last_at for one in condition.reporters.values()) <= world.clock.now()


def test_a_later_claim_of_the_node_has_a_check_of_its_own() -> None:
    world = busy_world()
    claimed(world)
    world.collector.outputs = shows(world)
    claimed(world)
    assert (checks(world), world.case().status) == (1, CaseStatus.QUEUED)
    claimed(world, "xid.95", component=OTHER_GPU)
    assert (checks(world), world.case().status) == (2, CaseStatus.RESOLVED)


def test_a_claim_that_repeats_after_its_check_began_is_not_refuted_by_it() -> None:
    world = busy_world()
    world.collector.outputs = shows(world)
    world.collector.read_duration = timedelta(minutes=2)
    world.claim()
    world.process_entries()
    world.until(lambda: checks(world) == 1)
    world.clock.advance(timedelta(seconds=30))
    world.claim()
    world.advance_minutes(5)
    assert [one.component for one in world.node().active()] == [GPU]


def test_what_was_read_before_a_reboot_proves_nothing_after_it() -> None:
    world = busy_world()
    world.report_boot("boot-1")
    world.collector.outputs = shows(world, kernel_line(79, 1, world.clock.now()))
    world.collector.read_duration = timedelta(minutes=2)
    world.claim()
    world.process_entries()
    world.until(lambda: checks(world) == 1)
    world.collector.outputs = lambda _instance: None
    world.report_boot("boot-2")
    world.advance_minutes(5)
    assert [one.claimed for one in world.node().active()] == [True]


def test_what_an_instance_showed_proves_nothing_if_it_boots_before_that_is_recorded() -> None:
    world = busy_world()
    world.report_boot("boot-1")
    world.collector.outputs = shows(world, kernel_line(79, 1, world.clock.now()))

    def boots(call: Call) -> None:
        if call.name == "collector.read" and any(world.collector.read_at.values()):
            world.seam.after = lambda _: None
            world.clock.advance(1)
            world.report_boot("boot-2")

    world.seam.after = boots
    world.claim()
    world.process_entries()
    world.until(lambda: bool(world.node().incarnation and world.node().incarnation.boot_id == "boot-2"))
    assert [one.claimed for one in world.node().active()] == [True]


def test_no_check_runs_for_proven_faults_idle_nodes_or_diagnostics() -> None:
    world = busy_world(nodes=2)
    world.collector.outputs = shows(world)
    world.orchestrator.busy_until.clear()
    world.claim(node=1)
    world.fault(node=2)
    world.process_entries()
    world.advance_minutes(40)
    assert {"verify begun", "verify passed"} <= set(world.record_history())
    assert checks(world) == 0


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.DRY_RUN])
def test_no_check_runs_in_a_cluster_that_is_only_watched(mode: Mode) -> None:
    world = busy_world()
    world.collector.outputs = shows(world)
    world.claim()
    world.process_entries()
    world.set_mode(mode)
    world.advance_minutes(10)
    assert checks(world) == 0


def test_claims_about_all_nodes_are_checked_a_few_a_sweep() -> None:
    world = busy_world(nodes=24)
    world.collector.outputs = shows(world)
    for number in range(1, 25):
        world.claim(node=number)
    world.process_entries()
    counts = [checks(world)]
    for _ in range(20):
        world.advance_minutes()
        counts.append(checks(world))
    assert max(later - earlier for earlier, later in pairwise(counts)) <= 5
    assert all(world.status(number) is NodeStatus.HEALTHY for number in range(1, 25))
    assert is_untouched(world)
