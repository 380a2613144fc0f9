"""Job callbacks: delivered after a repair, in order, retried, and recorded once."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.enums import CaseStatus, ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.storage import jobs as stored
from faultbridge.model.storage.writes import Delete, Key
from faultbridge.record.queries import query_all
from faultbridge.repair.jobs.callbacks import LEASE, RETRY_FOR
from faultbridge.repair.jobs.changes import Resume
from faultbridge.repair.jobs.verdicts import record_verdict
from tests.events.validate import assert_valid_event
from tests.jobs.builders import callback, configure, document, repaired
from tests.jobs.resume import break_and_end, changes, job_data, jobs, started
from tests.races import run_before_write
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call, raise_once

LOST = ProviderFailure.TIMEOUT


def notified(world: World) -> list[dict[str, Any]]:
    return [data["callback"] for data in job_data(world) if data["change"] == "notified"]


def test_no_callback_is_used_without_configuration() -> None:
    world = repaired()
    world.advance_minutes(10)
    assert (world.callback.received, changes(world)[-1]) == ([], "resumable")


def test_a_callback_receives_the_published_event_once_and_its_delivery_is_a_valid_event() -> None:
    world = repaired("webhook")
    world.advance_minutes(20)
    (notice,) = world.callback.received
    event = json.loads(notice.event)
    assert_valid_event(event)
    assert (event["data"]["change"], event["data"]["job_id"], notice.job_id) == ("resumable", "1", "1")
    (result,) = (body for body in world.bodies(None) if body["data"].get("change") == "notified")
    assert_valid_event(result)
    assert result["data"]["callback"] == {"name": "webhook", "delivered": True}
    assert result["metadata"]["causation_id"] == event["metadata"]["event_id"] == notice.event_id
    assert jobs(world).rows(CLUSTER) == ()


def test_a_callback_carries_which_attempt_of_the_job_failed_and_how_many_failed_alike_before_it() -> None:
    world = started(1)
    configure(world, "webhook")
    for _ in range(2):
        jobs(world).end(CLUSTER, "1", outcome="failed")
        world.clock.advance(60)
        jobs(world).start(CLUSTER, "1", ["node-1"])
    break_and_end(world)
    world.until(world.case_is(CaseStatus.RESOLVED))
    world.advance_minutes(5)
    data = json.loads(world.callback.received[-1].event)["data"]
    assert (data["change"], data["attempt"], data["repeated_attempts"]) == ("resumable", 3, 2)


def test_a_callback_that_fails_is_tried_again_until_it_is_delivered() -> None:
    world = repaired("webhook", failures=[LOST] * 3)
    world.advance_minutes(20)
    assert (len(world.callback.received), notified(world)) == (1, [{"name": "webhook", "delivered": True}])


def test_the_callbacks_of_a_cluster_are_delivered_in_order_while_the_first_one_fails() -> None:
    world = repaired("webhook", jobs_of_node=("1", "2"), failures=[LOST] * 3)
    world.advance_minutes(20)
    assert [notice.job_id for notice in world.callback.received] == ["1", "2"]


def test_a_failed_callback_without_order_does_not_delay_the_callbacks_of_later_jobs() -> None:
    world = repaired("slurm-requeue", jobs_of_node=("1", "2"), failures=[LOST])
    world.advance_minutes(20)
    assert [notice.job_id for notice in callback(world, "slurm-requeue").received] == ["2", "1"]


def test_a_receiver_that_fails_does_not_delay_the_callbacks_to_another_receiver() -> None:
    world = repaired("webhook", "slurm-requeue", jobs_of_node=("1", "2"), failures=[LOST] * 1000)
    world.advance_minutes(20)
    assert [notice.job_id for notice in callback(world, "slurm-requeue").received] == ["1", "2"]
    assert world.callback.received == []


def test_a_callback_that_an_operator_must_fix_is_not_tried_again() -> None:
    world = repaired("webhook", failures=[ProviderFailure.PERMISSION_DENIED])
    world.advance_minutes(20)
    assert (world.callback.received, notified(world)) == ([], [{"name": "webhook", "delivered": False}])


def test_a_callback_is_given_up_after_six_hours_and_this_is_recorded() -> None:
    world = repaired("webhook", failures=[LOST] * 1000)
    world.advance_minutes(20)
    assert notified(world) == []
    world.clock.advance(RETRY_FOR)
    world.advance_minutes(2)
    assert notified(world) == [{"name": "webhook", "delivered": False}]


def test_a_failed_callback_is_tried_again_although_its_job_ran_for_more_than_six_hours() -> None:
    world = repaired("webhook", failures=[LOST], ran=RETRY_FOR + timedelta(hours=1))
    world.advance_minutes(20)
    assert (len(world.callback.received), notified(world)) == (1, [{"name": "webhook", "delivered": True}])


def test_a_delivery_whose_record_was_lost_is_repeated_with_the_same_event_and_has_one_effect() -> None:
    world = repaired("webhook", failures=[LOST])
    world.seam.after = raise_once(("callback.deliver", Transient("no answer")))
    world.advance_minutes(20)
    assert (len(world.callback.received), len(world.callback.resumed)) == (2, 1)
    assert notified(world) == [{"name": "webhook", "delivered": True}]


def test_two_sweeps_at_the_same_time_deliver_once() -> None:
    world = repaired("webhook", failures=[LOST] * 1000)
    while "resumable" not in changes(world):
        world.advance_minutes(1)
    world.callback.failures.clear()
    world.clock.advance(timedelta(minutes=1))
    world.deliver_callbacks.deliver(CLUSTER)
    first = len(world.callback.received)
    world.deliver_callbacks.deliver(CLUSTER)
    assert (first, len(world.callback.received)) == (1, 1)


def during_next_delivery(world: World, action: Callable[[], object]) -> None:
    """Run an action while the next callback is delivered."""

    def act(call: Call) -> None:
        if call.name == "callback.deliver":
            world.seam.before = lambda _: None
            action()

    world.seam.before = act


def test_a_sweep_delivers_nothing_during_the_delivery_of_another_sweep() -> None:
    world = repaired("webhook", failures=[LOST])
    received: list[int] = []

    def sweep_again() -> None:
        world.clock.advance(LEASE - timedelta(seconds=1))
        world.deliver_callbacks.deliver(CLUSTER)
        received.append(len(world.callback.received))

    during_next_delivery(world, sweep_again)
    world.advance_minutes(20)
    assert (received, len(world.callback.received)) == ([0], 1)


def test_two_sweeps_that_reserve_the_callbacks_at_the_same_time_do_not_both_deliver() -> None:
    world = repaired("webhook", failures=[LOST] * 1000)
    while "resumable" not in changes(world):
        world.advance_minutes(1)
    world.callback.failures.clear()
    world.callback.fail_next(LOST)
    world.clock.advance(timedelta(minutes=1))

    def other_sweep() -> None:
        world.clock.advance(timedelta(seconds=1))
        world.deliver_callbacks.deliver(CLUSTER)

    run_before_write(world.seam, lambda write: write.key.sk == "CALLBACKS", other_sweep)
    world.deliver_callbacks.deliver(CLUSTER)
    assert (world.callback.received, world.callback.failures) == ([], deque())


def test_a_delivery_that_another_sweep_repeated_is_recorded_once() -> None:
    world = repaired("webhook", failures=[LOST])

    def sweep_again() -> None:
        world.clock.advance(LEASE + timedelta(seconds=1))
        world.deliver_callbacks.deliver(CLUSTER)

    during_next_delivery(world, sweep_again)
    world.advance_minutes(20)
    assert (len(world.callback.received), len(notified(world))) == (2, 1)


def test_a_job_that_becomes_resumable_again_during_a_delivery_is_delivered_again() -> None:
    world = repaired("webhook", failures=[LOST])

    def resume_again() -> None:
        world.clock.advance(timedelta(seconds=1))
        jobs(world).start(CLUSTER, "1", [world.key(1).node])
        ended = jobs(world).end(CLUSTER, "1", outcome="failed")
        jobs(world).record_resumable(ended, Resume(), ("webhook",))

    during_next_delivery(world, resume_again)
    world.advance_minutes(20)
    assert (len(world.callback.received), len(world.callback.resumed)) == (2, 2)


def test_a_job_that_started_again_is_not_delivered() -> None:
    world = repaired("webhook", failures=[LOST] * 1000)
    world.advance_minutes(20)
    jobs(world).start(CLUSTER, "1", [world.key(1).node])
    world.callback.failures.clear()
    world.advance_minutes(5)
    assert world.callback.received == []


def test_a_job_with_the_verdict_stop_and_a_removed_callback_are_not_delivered_and_this_is_recorded() -> None:
    for change in ("stop", "remove"):
        world = repaired("webhook", failures=[LOST] * 1000)
        world.advance_minutes(20)
        world.callback.failures.clear()
        if change == "stop":
            record_verdict(jobs(world).writer, CLUSTER, "1", document("STOP"))
        else:
            configure(world)
        world.advance_minutes(5)
        assert (world.callback.received, notified(world)) == ([], [{"name": "webhook", "delivered": False}])


def test_a_callback_whose_event_is_gone_is_recorded_as_not_delivered_with_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = repaired("webhook", failures=[LOST] * 1000)
    world.advance_minutes(20)
    world.callback.failures.clear()
    partition = stored.job_partition(CLUSTER, "1")
    for row in query_all(world.table, partition, up_to=stored.LAST_LINK):
        world.table.write(Delete(Key(str(row["pk"]), str(row["sk"]))))
    world.advance_minutes(5)
    assert (world.callback.received, notified(world)) == ([], [{"name": "webhook", "delivered": False}])
    assert "job_callback_without_event" in caplog.text
    assert jobs(world).rows(CLUSTER) == ()
