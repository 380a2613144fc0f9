"""An attempt that is stopped before its intent costs its case nothing: it does not count and causes no delay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.cluster.group_updates import UpdateHold
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.registry.registration import Registration
from tests.scenarios.repair.test_rules_of_joined_faults import CAREFUL, MILD, with_rules
from tests.scenarios.world import CLUSTER, GROUP, World


def pause(world: World) -> None:
    world.pause_repairs(paused=True)


def join(world: World) -> None:
    """Report a fault whose replacement requires an approval."""
    world.fault(code="xid.79")


def begin_update(world: World) -> None:
    now = world.clock.now()
    hold = UpdateHold(GROUP, now, now + timedelta(days=1))
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"update_holds": (hold,)})


@pytest.mark.parametrize("action", [Action.REBOOT_NODE, Action.REPLACE_NODE])
@pytest.mark.parametrize(
    ("stop", "waiting_for"), [(pause, WaitingFor.PAUSE), (join, WaitingFor.APPROVAL), (begin_update, WaitingFor.UPDATE)]
)
def test_a_stopped_attempt_does_not_count_and_delays_no_later_attempt(
    stop: Callable[[World], None], waiting_for: WaitingFor, action: Action
) -> None:
    world = with_rules(CAREFUL, replace(MILD, action=action))
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=10)
    world.fault_and_react(code="xid.48", severity=Severity.ERROR)
    assert world.status() is NodeStatus.DRAINING
    stop(world)
    world.until(world.case_is(CaseStatus.QUEUED))
    case = world.case()
    assert (case.attempts, case.counted_attempts, case.not_before) == (1, 0, None)
    assert (case.waiting_for, world.status()) == (waiting_for, NodeStatus.QUARANTINED)
    assert (world.restarter.restarted, world.released_instances()) == ([], [])
