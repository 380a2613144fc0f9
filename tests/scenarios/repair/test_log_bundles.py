"""Log bundles: logs are collected before a restart or release, and never delay a repair for long."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure
from faultbridge.model.errors import Misconfigured
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage.writes import Write
from faultbridge.model.values import replace
from faultbridge.repair.attempt.step_context import StepRequest
from tests.races import run_before_write
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call

RESOLVED = CaseStatus.RESOLVED
FIRST = "i-00000000000000001"


def bundles(world: World) -> list[dict[str, object]]:
    return [body["data"] for body in world.bodies() if body["data"].get("step") == "collect"]


def test_the_timeline_records_the_log_location_before_the_intent() -> None:
    world = World()
    world.fault_until_resolved()
    (kept,) = bundles(world)
    assert kept["facts"] == {"bundle": f"s3://bundles/{FIRST}/{world.case().id}-1"}
    story = world.record_history()
    assert story.index("collect kept") < story.index("intent committed")


def test_a_repair_waits_for_slow_logs_at_most_five_minutes() -> None:
    world = World()
    world.collector.duration = timedelta(hours=1)
    world.fault_and_react(minutes=4)
    assert (world.status(), world.released_instances()) == (NodeStatus.DRAINING, [])
    world.until(lambda: bool(world.released_instances()), minutes=10)
    assert [one["outcome"] for one in bundles(world)] == ["timed_out"]
    world.until(world.case_is(RESOLVED))


def test_no_volume_is_detached_while_the_logs_are_collected() -> None:
    world = World()
    world.policy = replace(world.policy, volumes=("data",))
    world.volumes.add(FIRST)
    world.collector.duration = timedelta(hours=1)
    world.fault_and_react(minutes=4)
    assert (world.node().moving_volumes, world.volumes.detached) == ((), [])


def test_two_calls_of_a_step_at_once_record_one_bundle() -> None:
    world = World()

    def second_call() -> None:
        world.clock.advance(timedelta(seconds=1))
        world.step_runner.run(StepRequest("release_instance", world.key(), world.case().id, 1), None)

    def records_bundle(_: Write) -> bool:
        attempt = world.case().attempt
        return attempt is not None and attempt.bundle_since is not None and "collect" not in attempt.steps

    world.fault()
    world.provider.fail_next(ProviderFailure.AMBIGUOUS)  # the second call records its bundle and then waits
    run_before_write(world.seam, records_bundle, second_call)
    world.process_entries()
    assert [one["outcome"] for one in bundles(world)] == ["kept"]


def test_a_failed_log_bundle_does_not_stop_the_repair() -> None:
    world = World()
    world.collector.failure_reason = "the agent does not answer"
    world.fault_until_resolved()
    (failed,) = bundles(world)
    assert (failed["outcome"], failed["reason"]) == ("failed", "the agent does not answer")
    assert world.case().attempts == 1


def test_a_collector_without_permission_does_not_stop_the_repair() -> None:
    world = World()

    def refuse(call: Call) -> None:
        if call.port == "collector":
            raise Misconfigured("no right to send commands")

    world.seam.before = refuse
    world.fault_until_resolved()
    assert [one["outcome"] for one in bundles(world)] == ["failed"]


def test_a_restart_collects_logs_and_a_verification_alone_does_not() -> None:
    rules = (
        Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE),
        Rule("look", Match(codes=("xid.48",)), action=Action.RUN_DIAGNOSTICS),
    )
    world = World(nodes=2, rules=rules)
    world.fault(1)
    world.fault_and_react(2, code="xid.48")
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    assert [instance for instance, _ in world.collector.started] == [FIRST]


@pytest.mark.parametrize("action", [Action.REPLACE_NODE, Action.REBOOT_NODE])
@pytest.mark.parametrize("orchestrated", [False, True])
def test_without_another_writer_no_commit_of_a_repair_is_repeated(
    action: Action, orchestrated: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rule = Rule("fix", Match(codes=("xid.79",)), action=action, release_without_capacity=True)
    World(rules=(rule,), orchestrated=orchestrated).fault_until_resolved()
    assert "commit_conflict" not in {record.message for record in caplog.records}


@pytest.mark.parametrize(("seconds", "outcomes"), [(299, []), (300, ["timed_out"])])
def test_a_repair_goes_on_without_its_logs_from_the_fifth_minute_on(seconds: int, outcomes: list[str]) -> None:
    world = World()
    world.collector.duration = timedelta(hours=1)
    world.fault_and_react()
    world.clock.advance(seconds)
    case = world.case()
    request = {"v": 1, "cluster": CLUSTER, "node": "node-1", "case": case.id, "attempt": case.attempts}
    world.step_runner.run_step(request | {"step": "release_instance"})
    assert [one["outcome"] for one in bundles(world)] == outcomes
