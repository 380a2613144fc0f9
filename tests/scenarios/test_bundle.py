"""The logs of an instance are kept before it is restarted or given up, and a repair never waits for them in vain."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action
from faultbridge.domain.policy import Match, Rule
from faultbridge.errors import Misconfigured
from faultbridge.simulation.fakes import Call
from tests.scenarios.world import World

RESOLVED = CaseStatus.RESOLVED
FIRST = "i-00000000000000001"


def bundles(world: World) -> list[dict[str, object]]:
    return [body["data"] for body in world.bodies() if body["data"].get("step") == "collect"]


def test_the_timeline_says_where_the_logs_lie_before_the_intent() -> None:
    world = World()
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    (kept,) = bundles(world)
    assert kept["facts"] == {"bundle": f"s3://bundles/{FIRST}/{world.case().id}-1"}
    story = world.story()
    assert story.index("collect kept") < story.index("intent committed")


def test_logs_that_take_their_time_are_waited_for_five_minutes_and_no_longer() -> None:
    world = World()
    world.collector.duration = timedelta(hours=1)
    world.fault()
    world.listen()
    world.minute(4)
    assert (world.status(), world.released()) == (NodeStatus.DRAINING, [])
    world.until(lambda: bool(world.released()), minutes=10)
    assert [one["outcome"] for one in bundles(world)] == ["timed_out"]
    world.until(world.case_is(RESOLVED))


def test_logs_that_cannot_be_had_stop_no_repair() -> None:
    world = World()
    world.collector.refusing = "the agent does not answer"
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    (failed,) = bundles(world)
    assert (failed["outcome"], failed["reason"]) == ("failed", "the agent does not answer")
    assert world.case().attempts == 1


def test_a_collector_that_nobody_allows_to_work_stops_no_repair() -> None:
    world = World()

    def refuse(call: Call) -> None:
        if call.port == "collector":
            raise Misconfigured("no right to send commands")

    world.seam.before = refuse
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert [one["outcome"] for one in bundles(world)] == ["failed"]


def test_a_restart_keeps_the_logs_too_and_a_verification_alone_needs_none() -> None:
    rules = (
        Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE),
        Rule("look", Match(codes=("xid.48",)), action=Action.RUN_DIAGNOSTICS),
    )
    world = World(nodes=2, rules=rules)
    world.fault(1)
    world.fault(2, code="xid.48")
    world.listen()
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    assert [instance for instance, _ in world.collector.begun] == [FIRST]
