"""Progress of jobs: a stall is recorded by time alone, once, and a wrong loss when it is reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode.data import load_catalog
from faultbridge.model.cluster.jobs import LOSS_SPIKE, MIN_LOSSES, NOT_FINITE, Progress, loss_alarm
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault
from faultbridge.model.storage.jobs import progress_key
from faultbridge.model.storage.writes import WORK, Work
from faultbridge.model.times import to_text
from faultbridge.repair.jobs.progress import JobProgress
from tests.events.validate import assert_valid_event
from tests.jobs.builders import calls
from tests.jobs.resume import changes, job_data, jobs
from tests.races import run_before_write, writes_to
from tests.scenarios.world import CLUSTER, World

LIMIT = timedelta(minutes=10)


def running() -> World:
    """Return a world with a job that is stalled after ten minutes without a step."""
    world = World(nodes=2)
    jobs(world).start(CLUSTER, "1", ["node-1"], stall_after=LIMIT)
    return world


def beat(world: World, step: int, loss: float | None = None) -> None:
    JobProgress(jobs(world)).heartbeat(CLUSTER, "1", step, loss)


def state(world: World) -> str:
    return jobs(world).show(CLUSTER, "1").state_at(world.clock.now())


def test_a_job_whose_heartbeats_stop_is_stalled_after_its_limit_without_anything_sent_again() -> None:
    world = running()
    beat(world, 7)
    world.advance_minutes(9)
    assert (state(world), changes(world)) == ("running", ["started"])
    world.advance_minutes(2)
    assert (state(world), changes(world)) == ("stalled", ["started", "stalled"])
    assert job_data(world)[-1]["reason"].startswith("step 7 has not advanced for 600 s; the last heartbeat was at ")
    world.advance_minutes(30)
    assert changes(world) == ["started", "stalled"]


def test_a_job_whose_heartbeats_repeat_one_step_is_stalled_and_the_event_says_that_they_arrive() -> None:
    world = running()
    for _ in range(12):
        beat(world, 7)
        world.advance_minutes()
    assert changes(world) == ["started", "stalled"]
    assert job_data(world)[-1]["reason"] == "step 7 has not advanced for 600 s; heartbeats still arrive"


def test_a_job_that_advances_is_never_stalled() -> None:
    world = running()
    for step in range(40):
        beat(world, step)
        world.advance_minutes()
    assert changes(world) == ["started"]


def test_a_stalled_job_that_advances_again_is_reported_and_can_stall_again() -> None:
    world = running()
    beat(world, 7)
    world.advance_minutes(11)
    beat(world, 8)
    assert (state(world), changes(world)[-1]) == ("running", "advanced")
    world.advance_minutes(11)
    assert changes(world) == ["started", "stalled", "advanced", "stalled"]
    for body in world.bodies(None):
        assert_valid_event(body)


def test_a_job_that_sends_no_heartbeat_or_ended_is_never_stalled() -> None:
    world = running()
    world.advance_minutes(40)
    beat(world, 7)
    jobs(world).end(CLUSTER, "1", outcome="succeeded")
    world.advance_minutes(40)
    assert changes(world) == ["started", "ended"]
    assert [
        row
        for timer in Work.TIMER.partitions()
        for row in world.table.query(timer, index=WORK).items
        if "JOB" in row["pk"]
    ] == []


def test_a_requeued_job_may_start_at_an_earlier_step() -> None:
    world = running()
    beat(world, 700)
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.advance_minutes()
    jobs(world).start(CLUSTER, "1", ["node-2"], stall_after=LIMIT)
    beat(world, 650)
    world.advance_minutes(8)
    beat(world, 651)
    world.advance_minutes(8)
    assert "stalled" not in changes(world)
    world.advance_minutes(3)
    assert changes(world)[-1] == "stalled"


def test_a_run_that_restores_a_checkpoint_advances_below_its_highest_step() -> None:
    world = running()
    beat(world, 700)
    for step in (*range(650, 670), *range(600, 620)):
        world.advance_minutes(4)
        beat(world, step)
    assert changes(world) == ["started"]
    world.advance_minutes(11)
    assert job_data(world)[-1]["reason"].startswith("step 619 has not advanced for 600 s")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_processes_that_hang_at_different_steps_advance_no_more_once_they_repeat(steps: list[int]) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    progress = Progress(at, steps[0], at, at)
    for step in steps * len(steps):
        progress, _ = progress.reported(step, at)
    assert [progress.reported(step, at) for step in steps] == [(progress, False)] * len(steps)


def test_a_job_whose_two_processes_hang_at_neighboring_steps_is_stalled() -> None:
    world = running()
    for step in (7, 6) * 8:
        beat(world, step)
        world.advance_minutes()
    assert changes(world) == ["started", "stalled"]


def test_a_wrong_loss_of_a_repeated_step_is_recorded() -> None:
    world = running()
    beat(world, 7, 2.0)
    beat(world, 7, float("nan"))
    beat(world, 7, 2.0)
    assert jobs(world).show(CLUSTER, "1").alarm == NOT_FINITE
    beat(world, 8, 2.0)
    assert jobs(world).show(CLUSTER, "1").alarm is None


def test_a_lasting_level_of_the_loss_ends_its_alarm_once_it_is_ordinary() -> None:
    world = running()
    for step in range(20):
        beat(world, step, 2.0)
    for step in range(20, 60):
        beat(world, step, 9.5 if step % 2 else 9.0)
    reasons = [data["reason"] for data in job_data(world) if data["change"] == "loss"]
    assert [reason.split(" at ")[0] for reason in reasons] == ["the loss rose suddenly", "the loss is ordinary again"]


@pytest.mark.parametrize("ended", [False, True])
def test_a_heartbeat_during_the_sweep_keeps_its_timer_and_a_later_hang_is_reported(
    monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    world = running()
    beat(world, 7)
    if ended:
        jobs(world).end(CLUSTER, "1", outcome="failed")
    read = JobProgress._stored
    beats: list[int] = []

    def with_a_heartbeat(self: JobProgress, cluster: str, job_id: str) -> Progress | None:
        found = read(self, cluster, job_id)
        if not beats:
            beats.append(8)
            if ended:
                jobs(world).start(CLUSTER, "1", ["node-1"], stall_after=LIMIT)
            beat(world, 8)
        return found

    world.clock.advance(11 * 60)
    monkeypatch.setattr(JobProgress, "_stored", with_a_heartbeat)
    JobProgress(jobs(world)).check(progress_key(CLUSTER, "1"))
    monkeypatch.undo()
    assert state(world) == "running"
    world.advance_minutes(12)
    assert changes(world)[-1] == "stalled"


def test_of_two_heartbeats_at_once_the_later_step_is_not_overwritten_by_the_earlier_one() -> None:
    world = running()
    beat(world, 7)
    world.clock.advance(1)
    run_before_write(world.seam, writes_to(progress_key(CLUSTER, "1")), lambda: beat(world, 9))
    beat(world, 8)
    stored = world.table.get(progress_key(CLUSTER, "1"))
    assert stored is not None
    assert stored["step"] == 9


@pytest.mark.parametrize(
    ("wait", "act", "change"),
    [
        (0, lambda world: beat(world, 8, float("nan")), "loss"),
        (0, lambda world: JobProgress(jobs(world)).check(progress_key(CLUSTER, "1")), "stalled"),
        (2, lambda world: beat(world, 8), "advanced"),
    ],
)
def test_two_processes_that_find_the_same_change_of_a_job_record_it_once(
    wait: int, act: Callable[[World], object], change: str
) -> None:
    world = running()
    beat(world, 7)
    world.clock.advance(11 * 60)
    world.advance_minutes(wait)  # a sweep records the stall

    def rival() -> None:
        world.clock.advance(1)
        act(world)

    run_before_write(world.seam, lambda _: True, rival)
    act(world)
    assert changes(world).count(change) == 1


def test_a_job_that_starts_again_while_its_last_run_is_found_stalled_is_not_stalled() -> None:
    world = running()
    beat(world, 7)
    world.clock.advance(11 * 60)

    def start_again() -> None:
        world.clock.advance(1)
        jobs(world).end(CLUSTER, "1", outcome="failed")
        jobs(world).start(CLUSTER, "1", ["node-1"], stall_after=LIMIT)

    run_before_write(world.seam, lambda _: True, start_again)
    JobProgress(jobs(world)).check(progress_key(CLUSTER, "1"))
    assert (state(world), changes(world)) == ("running", ["started", "ended", "started"])


def test_a_wrong_loss_of_a_job_that_ends_meanwhile_is_not_recorded() -> None:
    world = running()
    beat(world, 7)
    run_before_write(world.seam, lambda _: True, lambda: jobs(world).end(CLUSTER, "1", outcome="failed"))
    beat(world, 8, float("nan"))
    assert changes(world) == ["started", "ended"]


def test_a_stall_changes_no_node() -> None:
    world = running()
    beat(world, 7)
    world.advance_minutes(15)
    assert world.append.read(world.key(1)).status is NodeStatus.HEALTHY
    assert jobs(world).show(CLUSTER, "1").affected == {}


def test_a_job_that_makes_progress_costs_a_sweep_no_call_and_repeated_heartbeats_few_writes() -> None:
    without, with_beats = running(), running()
    beat(with_beats, 7)
    for world in (without, with_beats):
        world.advance_minutes(3)
    assert len(calls(with_beats)) == len(calls(without))
    with_beats.seam.calls.clear()
    for _ in range(10):
        beat(with_beats, 7)
    assert [call.name for call in with_beats.seam.calls].count("table.write") <= 1


def test_a_loss_that_is_not_finite_or_rises_suddenly_is_recorded_once_until_it_is_ordinary_again() -> None:
    world = running()
    for step in range(20):
        beat(world, step, 2.0 + step / 100)
    for step, loss in enumerate((9.5, 9.6, float("nan"), float("inf"), 2.1), 20):
        beat(world, step, loss)
    reasons = [data["reason"] for data in job_data(world) if data["change"] == "loss"]
    assert reasons == [
        "the loss rose suddenly at step 20: 9.5",
        "the loss is not finite at step 22: nan",
        "the loss is ordinary again at step 24: 2.1",
    ]
    assert jobs(world).show(CLUSTER, "1").alarm is None


@given(st.lists(st.floats(min_value=1.0, max_value=1.9), max_size=40))
def test_losses_that_vary_by_less_than_a_factor_of_two_are_ordinary(losses: list[float]) -> None:
    assert all(loss_alarm(tuple(losses[:at]), loss) is None for at, loss in enumerate(losses))


def test_a_few_losses_are_no_basis_for_a_spike() -> None:
    assert loss_alarm((2.0,) * (MIN_LOSSES - 1), 50.0) is None
    assert loss_alarm((2.0,) * MIN_LOSSES, 50.0) == LOSS_SPIKE
    assert loss_alarm((), float("-inf")) == NOT_FINITE


@pytest.mark.parametrize(("step", "reason"), [(-1, "bad_step"), (10**13, "bad_step")])
def test_a_step_that_no_job_has_is_rejected(step: int, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        beat(running(), step)
    assert rejected.value.reason == reason


def test_a_heartbeat_of_a_job_that_ended_is_rejected() -> None:
    world = running()
    jobs(world).end(CLUSTER, "1")
    with pytest.raises(Rejected, match="has ended"):
        beat(world, 1)


def test_a_loss_that_is_not_a_number_in_the_log_of_a_node_affects_the_job_but_not_its_resume() -> None:
    world = running()
    job = Component(ComponentType.JOB)
    world.fault_and_react(1, "train.loss_not_finite", component=job, severity=Severity.WARNING, action=Action.NONE)
    (hit,) = (data["hit"] for data in job_data(world) if data["change"] == "hit")
    assert hit["about"]["code"] == "train.loss_not_finite"
    assert jobs(world).show(CLUSTER, "1").affected == {}


def running_on_two_nodes() -> World:
    """Return a world with a job on two of three nodes, whose nodes know it."""
    world = World(nodes=3, catalog=load_catalog())
    jobs(world).start(CLUSTER, "1", ["node-1", "node-2"])
    return world


def stop_sending(world: World, *nodes: int, code: str = "train.traffic_stopped", behind: str = "") -> None:
    for node in nodes:
        attributes = {"behind": behind} if behind else {}
        stopped = Fault("faultbridge", code, NODE_COMPONENT, "nothing", world.clock.now(), attributes=attributes)
        world.observe_fault(node, stopped)
    world.process_entries()


def send_again(world: World, node: int, code: str = "train.traffic_stopped") -> None:
    world.clock.advance(1)
    world.clear(node, code, "faultbridge", NODE_COMPONENT)
    world.process_entries()


def test_a_job_without_heartbeats_is_stalled_when_the_last_of_its_nodes_has_stopped_sending() -> None:
    world = running_on_two_nodes()
    stop_sending(world, 1)
    assert (state(world), changes(world)) == ("running", ["started"])
    world.advance_minutes(2)
    stopped_at = world.clock.now()
    stop_sending(world, 2)
    assert (state(world), changes(world)) == ("stalled", ["started", "stalled"])
    assert job_data(world)[-1]["reason"] == f"no data has moved between its 2 nodes since {to_text(stopped_at)}"
    assert (world.status(1), world.node(1).live_case) == (NodeStatus.DEGRADED, None)
    assert_valid_event(world.bodies(None)[-1])


def test_a_job_that_sends_again_makes_progress_again_and_can_stall_again() -> None:
    world = running_on_two_nodes()
    stop_sending(world, 1, 2)
    send_again(world, 1)
    assert (state(world), changes(world)) == ("running", ["started", "stalled", "advanced"])
    send_again(world, 2)
    stop_sending(world, 1, 2)
    assert changes(world) == ["started", "stalled", "advanced", "stalled"]


def test_a_stop_in_an_earlier_job_does_not_stall_the_next_job_of_the_nodes() -> None:
    world = running_on_two_nodes()
    stop_sending(world, 1, 2)
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.clock.advance(60)
    jobs(world).start(CLUSTER, "2", ["node-1", "node-2"])
    world.observe_fault(1, Fault("faultbridge", "host.silent", NODE_COMPONENT, "no data", world.clock.now()))
    world.process_entries()
    assert (jobs(world).show(CLUSTER, "2").stalled_at, world.node(1).jobs) == (None, ("2",))


def test_traffic_says_nothing_about_a_job_with_heartbeats() -> None:
    world = running_on_two_nodes()
    beat(world, 7)
    stop_sending(world, 1, 2)
    assert changes(world) == ["started"]


def test_a_node_without_a_running_job_that_sends_nothing_stays_healthy() -> None:
    world = running_on_two_nodes()
    jobs(world).end(CLUSTER, "1", outcome="succeeded")
    stop_sending(world, 1, 3)
    assert [world.status(node) for node in (1, 3)] == [NodeStatus.HEALTHY] * 2
    assert changes(world) == ["started", "ended"]


def test_a_job_on_one_node_is_stalled_when_its_gpus_stop_and_not_by_traffic() -> None:
    world = World(nodes=2, catalog=load_catalog())
    jobs(world).start(CLUSTER, "1", ["node-1"], ranks={"node-1": "8-15"})
    stop_sending(world, 1)
    assert changes(world) == ["started"]
    world.advance_minutes()
    stop_sending(world, 1, code="train.gpus_stopped", behind="3")
    stopped_at = world.clock.now()
    world.advance_minutes()  # the node was degraded before, so no entry starts `react`
    reason = f"the GPUs of its node did nothing since {to_text(stopped_at)}"
    reason += "; behind, without a running kernel: node-1 GPU 3 (rank 11)"
    assert (state(world), job_data(world)[-1]["reason"]) == ("stalled", reason)
    send_again(world, 1, "train.gpus_stopped")
    world.advance_minutes()
    assert changes(world) == ["started", "stalled", "advanced"]


def test_a_job_on_several_nodes_is_not_judged_by_its_gpus() -> None:
    world = running_on_two_nodes()
    stop_sending(world, 1, 2, code="train.gpus_stopped")
    assert changes(world) == ["started"]


@pytest.mark.parametrize(("of_first", "of_second"), [("", "1,3"), ("1", "1"), ("", "x" * 5000), ("", "")])
def test_the_ranks_behind_are_named_if_the_counters_of_one_node_show_them(of_first: str, of_second: str) -> None:
    world = running_on_two_nodes()
    stop_sending(world, 1, behind=of_first)
    stop_sending(world, 2, behind=of_second)
    _, _, named = job_data(world)[-1]["reason"].partition("; behind, without a running kernel: ")
    assert named == ("node-2 GPU 1, node-2 GPU 3" if of_second == "1,3" else "")


def test_the_rank_behind_is_named_too_if_the_heartbeats_of_a_job_show_that_it_stalled() -> None:
    world = World(nodes=2, catalog=load_catalog())
    ranks = {"node-1": "0-7", "node-2": "8-15"}
    jobs(world).start(CLUSTER, "1", ["node-1", "node-2"], stall_after=LIMIT, ranks=ranks)
    beat(world, 7)
    stop_sending(world, 2, behind="5")
    world.advance_minutes(11)
    reason = job_data(world)[-1]["reason"]
    assert reason.startswith("step 7 has not advanced for 600 s")
    assert reason.endswith("; behind, without a running kernel: node-2 GPU 5 (rank 13)")


def test_a_job_that_ended_meanwhile_is_not_stalled() -> None:
    world = running_on_two_nodes()
    run_before_write(
        world.seam,
        lambda write: "stalled" in repr(write),
        lambda: jobs(world).end(CLUSTER, "1", outcome="succeeded"),
    )
    stop_sending(world, 1, 2)
    assert changes(world) == ["started", "ended"]
