"""The option `--wait`: a list waits for its first row, a cluster for its health."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from faultbridge.model.cluster.state import Breaker, BreakerState, Control
from faultbridge.model.enums import Actor
from faultbridge.model.values import replace
from faultbridge.repair.controls import ControlChange, breaker_draft
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.wiring.services import wire_controls
from tests.builders import KEY
from tests.cli.desk import Desk
from tests.cli.orders import case_for_approval
from tests.world import XID_79

CLUSTER, NODE = KEY
LISTS = [
    ("case", "list"),
    ("node", "list", "--cluster", CLUSTER, "--status", "quarantined"),
    ("incident", "list"),
    ("reject", "list"),
    ("breaker", "--cluster", CLUSTER),
    ("timeline", "--cluster", CLUSTER, "--code", "xid.79"),
]


@pytest.fixture
def at_poll(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[float]]:
    """Run something at each pause instead of pausing; returns the lengths of the pauses."""

    def use(act: Callable[[], object]) -> list[float]:
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            act()

        monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", sleep)
        return pauses

    return use


AtPoll = Callable[[Callable[[], object]], list[float]]


@pytest.mark.parametrize("arguments", LISTS, ids=lambda one: one[0])
def test_a_list_that_stays_empty_ends_with_75_after_its_time(
    desk: Desk, at_poll: AtPoll, arguments: tuple[str, ...]
) -> None:
    pauses = at_poll(lambda: None)
    assert desk(*arguments).code == 0
    assert pauses == []
    assert desk(*arguments, "--wait", "3").code == 75
    assert sum(pauses) == 3


def test_a_breaker_that_is_closed_again_is_no_open_breaker(desk: Desk, at_poll: AtPoll) -> None:
    at_poll(lambda: None)
    controls, opened = wire_controls(desk.world.app), Breaker(BreakerState.OPEN, desk.world.now, 1, 5, 8)

    def open_breaker(control: Control, _: datetime) -> ControlChange:
        draft = breaker_draft("cluster", None, opened, "5 nodes fail at once")
        return ControlChange(replace(control, breakers={"cluster": opened}), (draft,))

    controls.change(CLUSTER, open_breaker, Actor.DISPATCH)
    assert desk("breaker", "--cluster", CLUSTER, "--wait", "3").code == 0
    controls.close_breakers(CLUSTER, "ada")
    ran = desk("breaker", "--cluster", CLUSTER, "--wait", "3")
    assert (ran.code, "closed" in ran.out) == (75, True)


def test_a_list_of_cases_waits_for_the_case_that_needs_an_approval(desk: Desk, at_poll: AtPoll) -> None:
    at_poll(lambda: case_for_approval(desk))
    (case,) = desk.json("case", "list", "--waiting-for", "approval", "--wait", "9")
    assert (case["node"], case["waiting_for"]) == (NODE, "approval")
    assert desk.json("case", "list", "--waiting-for", "pause") == []


def test_a_timeline_waits_for_the_entry_of_a_code(desk: Desk, at_poll: AtPoll) -> None:
    desk.json("send", "--source", "kernel-log", "--cluster", CLUSTER, "--node", NODE, given=XID_79)
    at_poll(desk.run_ingest)
    ran = desk("timeline", "--cluster", CLUSTER, "--code", "xid.79", "--wait", "9")
    assert "xid.79 (gpu.lost) gpu 0000:c1:00 detected" in ran.out
    assert desk("timeline", "--cluster", CLUSTER, "--follow", "--wait", "9").code == 2


def test_a_cluster_is_shown_when_it_is_healthy(desk: Desk, at_poll: AtPoll) -> None:
    pauses = at_poll(lambda: None)
    case_for_approval(desk)
    wire_react(desk.world.app).run([KEY])
    ran = desk("cluster", "show", CLUSTER, "--wait", "2")
    assert (ran.code, sum(pauses)) == (75, 2)
    assert "healthy" not in ran.out.splitlines()[1]
    desk.json("cluster", "add", "lab")
    desk.json("node", "add", "--cluster", "lab", "--node", "n-1", "--instance-id", "i-0123456789abcde77")
    at_poll(lambda: wire_react(desk.world.app).run([("lab", "n-1")]))
    ran = desk("cluster", "show", "lab", "--wait", "9")
    assert ran.code == 0
    assert [line.split(maxsplit=1)[-1] for line in ran.out.splitlines()] == ["lab", "healthy", "status  1 healthy"]
