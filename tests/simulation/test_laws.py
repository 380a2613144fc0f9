"""Each law finds the situation that it forbids, and keeps quiet about the one that it permits."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from faultbridge.model.cases import Attempt, Phase
from faultbridge.model.catalog import WorkEffect
from faultbridge.model.cluster.config import ClusterConfig, Mode
from faultbridge.model.conditions import Reporter
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import Incarnation, NodeKey, NodeState, Placement
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Key, Put
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import HostOutput
from faultbridge.record.ports.messaging import PageMessage, PageUrgency
from tests.builders import case, condition, node
from tests.sim.fakes.seam import Call
from tests.sim.fakes.table import StreamRecord
from tests.sim.fault_injection import NO_FAULTS
from tests.sim.laws import (
    breaker_trials,
    checkpoints,
    instances,
    isolation_budget,
    operators,
    running_work,
    urgent_pages,
)
from tests.sim.simulated_system import GROUPS, REPAIRED, SimulatedSystem

CLUSTER = {"network_node_2": "switch-1"}
SLOTS = "concurrent repairs never exceed the policy limit"


def system_of(nodes: int) -> SimulatedSystem:
    system = SimulatedSystem(0, NO_FAULTS)
    system.build(nodes=nodes, watched=1, scheduler=True)
    return system


def laws_broken(system: SimulatedSystem) -> set[str]:
    return {line.split(": ")[0] for line in system.journal.violations}


def instance(number: int) -> str:
    return f"i-{number:017x}"


def state(number: int, status: NodeStatus = NodeStatus.HEALTHY, **others: Any) -> NodeState:
    """Build the state of a node of the cluster, on the instance of the same number."""
    backing = Incarnation(
        1, 1, others.pop("backed_by", instance(number)), None, SimulatedSystem(0, NO_FAULTS).clock.now()
    )
    placement = Placement(group=GROUPS[REPAIRED], domains=CLUSTER)
    built = node(status, placement=placement, incarnation=backing, **others)
    return replace(built, key=NodeKey(REPAIRED, f"node-{number}"))


def reported(*, claimed: bool, severity: Severity = Severity.FATAL, **others: Any) -> dict[str, Any]:
    """Return the conditions of a node with one active condition."""
    reporter = Reporter(True, condition().last_at, claimed=claimed or None)
    one = replace(condition(), severity=severity, **others)
    one = replace(one, reporters={f"kernel-log {one.code}": reporter})
    return {"conditions": {one.code: one}}


CLAIMED = reported(claimed=True)
LOST = reported(claimed=False)


def serve(system: SimulatedSystem, nodes: int) -> None:
    for number in range(1, nodes + 1):
        pass_state(system, state(number))


def pass_state(system: SimulatedSystem, changed: NodeState) -> None:
    for law in system.laws.all:
        law.node_changed(changed)


def pass_entry(system: SimulatedSystem, number: int, **data: Any) -> None:
    meta = {"event_type": data.pop("event_type", "Node Replacement Step"), "node": f"node-{number}", "case_id": "c-1"}
    at = system.clock.now().isoformat().replace("+00:00", "Z")
    for law in system.laws.all:
        law.entry_added({"metadata": {**meta, "sequence": 1, "recorded_at": at}, "data": data})


def isolated(number: int, **others: Any) -> NodeState:
    return state(number, NodeStatus.DEGRADED, isolation=Isolation.REQUESTED, **others)


def test_nodes_that_a_restored_table_has_out_of_service_use_up_no_budget() -> None:
    system = system_of(12)
    serve(system, 12)
    pass_state(system, isolated(1, **CLAIMED))
    system.laws.restored()
    pass_state(system, isolated(2, **CLAIMED))
    assert laws_broken(system) == set()


def test_a_claim_may_take_one_node_out_of_service_and_not_a_second_one() -> None:
    system = system_of(12)
    serve(system, 12)
    pass_state(system, isolated(1, **CLAIMED))
    assert laws_broken(system) == set()
    pass_state(system, isolated(2, **CLAIMED))
    assert laws_broken(system) == {isolation_budget.OVER_BUDGET}


def test_lost_nodes_and_orders_need_no_permit_and_leave_one_exception() -> None:
    system = system_of(12)
    serve(system, 12)
    for number in range(1, 6):
        pass_state(system, isolated(number, **LOST))
    pass_state(system, isolated(6, **reported(claimed=False, code="operator.quarantine", severity=Severity.ERROR)))
    system.clock.advance(timedelta(hours=1))
    pass_state(system, isolated(7, **CLAIMED))
    assert laws_broken(system) == set()
    pass_state(system, isolated(8, **CLAIMED))
    assert laws_broken(system) == {isolation_budget.OVER_BUDGET}


def test_a_node_that_becomes_lost_gives_its_permit_back() -> None:
    system = system_of(12)
    serve(system, 12)
    pass_state(system, isolated(1, **CLAIMED))
    pass_state(system, isolated(1, **LOST))
    pass_state(system, isolated(2, **CLAIMED))
    assert laws_broken(system) == set()


def test_no_diagnostic_may_run_beside_work() -> None:
    system = system_of(2)
    system.truth.begin_work(instance(1), system.clock.now() + timedelta(hours=1))
    system.laws.before_call(Call("verifier", "start", (instance(2), "t", None)))
    assert laws_broken(system) == set()
    system.laws.before_call(Call("verifier", "start", (instance(1), "t", None)))
    assert laws_broken(system) == {running_work.DIAGNOSED}


@pytest.mark.parametrize(("conditions", "found"), [(CLAIMED, {running_work.FORCED}), (LOST, set())])
def test_only_a_proven_fault_may_force_a_drain(conditions: dict[str, Any], found: set[str]) -> None:
    system = system_of(1)
    pass_state(system, state(1, NodeStatus.DRAINING, **conditions))
    pass_entry(system, 1, step="drain", outcome="forced")
    assert laws_broken(system) == found


@pytest.mark.parametrize("failed", [False, True])
def test_a_claim_changes_an_instance_only_after_a_failed_verification(failed: bool) -> None:
    system = system_of(1)
    begun = reported(claimed=True, since=system.clock.now())
    pass_state(system, state(1, NodeStatus.DRAINING, **begun, case=case(status=CaseStatus.IN_PROGRESS)))
    system.clock.advance(60)
    if failed:
        pass_entry(system, 1, step="verify", outcome="failed")
    system.laws.before_call(Call("provider", "replace", (instance(1), "t")))
    assert laws_broken(system) == (set() if failed else {running_work.CHANGED})


@pytest.mark.parametrize(("failed_after", "found"), [(1, set()), (0, {running_work.CHANGED})])
def test_a_stronger_repair_for_a_claim_follows_a_verification_that_failed_after_the_last_one(
    failed_after: int, found: set[str]
) -> None:
    system = system_of(1)
    claim = reported(claimed=True, since=system.clock.now() + timedelta(hours=1), action=Action.RESET_GPU)
    for attempt in (1, 2):  # the second is the repair of the attempt in progress
        if attempt == failed_after + 1:
            pass_entry(system, 1, step="verify", outcome="failed")
        system.clock.advance(60)
        pass_entry(system, 1, step="intent", outcome="committed", attempt=attempt, repair_action="reset_gpu")
        system.clock.advance(60)
    current = case(status=CaseStatus.IN_PROGRESS, attempts=2, attempt=Attempt(2, Phase.INTENT))
    pass_state(system, state(1, NodeStatus.REPLACING, **claim, case=current))
    system.laws.before_call(Call("provider", "replace", (instance(1), "t")))
    assert laws_broken(system) == found


@pytest.mark.parametrize(
    ("required", "confirmed", "found"),
    [
        (Action.REBOOT_NODE, True, set()),
        (Action.RESET_GPU, True, {running_work.CHANGED}),
        (Action.REBOOT_NODE, False, {running_work.CHANGED}),
    ],
)
def test_a_proven_fault_that_ended_permits_the_action_that_it_required(
    required: Action, confirmed: bool, found: set[str]
) -> None:
    system = system_of(1)
    claim = reported(claimed=True, since=system.clock.now(), action=Action.RESET_GPU)
    proven = reported(claimed=False, code="net.link_absent", severity=Severity.ERROR, action=required)
    both = {"conditions": claim["conditions"] | proven["conditions"]}
    pass_state(system, state(1, NodeStatus.QUARANTINED, **both, case=case()))
    system.clock.advance(60)
    if confirmed:
        pass_entry(system, 1, step="verify", outcome="failed")
    pass_state(system, state(1, NodeStatus.DRAINING, **claim, case=case(status=CaseStatus.IN_PROGRESS)))
    system.laws.before_call(Call("restarter", "restart", (RepairAction.REBOOT_NODE, instance(1), "t")))
    assert laws_broken(system) == found


@pytest.mark.parametrize(
    ("shown", "code", "found"),
    [(True, "xid.119", {running_work.REFUTED}), (True, "xid.48", set()), (False, "xid.119", set())],
)
def test_a_claim_that_its_instance_shows_is_not_refuted(shown: bool, code: str, found: set[str]) -> None:
    system = system_of(1)
    serve(system, 1)
    if shown:
        system.truth.show(instance(1), 119, 0)
    system.clock.advance(60)
    system.ports.collector.outputs = lambda _: HostOutput()
    system.ports.collector.read(instance(1), "c-1 check 1")
    reason = "refuted by the health snapshot of claim-check"
    pass_entry(system, 1, event_type="Node Fault Cleared", code=code, reason=reason)
    assert laws_broken(system) == found


def test_text_that_a_program_can_write_proves_nothing() -> None:
    system = system_of(2)
    pass_state(system, state(1, **reported(claimed=True, code="xid.95")))
    assert laws_broken(system) == set()
    pass_state(system, state(2, **reported(claimed=False, code="xid.95")))
    assert laws_broken(system) == {running_work.FORGED}


def test_text_that_a_program_writes_may_join_a_fault_that_its_node_proves() -> None:
    system = system_of(2)
    (joined,) = reported(claimed=True, code="xid.95")["conditions"].values()
    reporters = joined.reporters | {"kernel-log xid.48": Reporter(True, joined.last_at)}
    pass_state(system, state(1, conditions={joined.code: replace(joined, reporters=reporters)}))
    assert laws_broken(system) == set()
    reporters |= {"kernel-log xid.95": Reporter(True, joined.last_at)}
    pass_state(system, state(2, conditions={joined.code: replace(joined, code="xid.48", reporters=reporters)}))
    assert laws_broken(system) == {running_work.FORGED}


def test_an_instance_backs_one_node() -> None:
    system = system_of(2)
    serve(system, 2)
    pass_state(system, state(2, backed_by=instance(1)))
    assert laws_broken(system) == {instances.SHARED}


def test_a_second_launch_for_a_case_is_found_while_the_first_instance_runs() -> None:
    system = system_of(1)
    fleet = system.fleet
    launched = [fleet.launch(GROUPS[REPAIRED]) for _ in range(2)]
    fleet.instances |= {one: replace(fleet.instances[one], case="c-1") for one in launched}
    fleet.remove(launched[0])
    system.ports.launcher.launch_calls.append(("c-1", "t-1"))
    system.laws.after_call()
    assert laws_broken(system) == set()
    fleet.instances[launched[0]] = replace(fleet.instances[launched[0]], alive=True)
    system.ports.launcher.launch_calls.append(("c-1", "t-2"))
    system.laws.after_call()
    assert laws_broken(system) == {instances.LAUNCHED_TWICE}


def test_the_attempt_after_an_escalation_may_launch_an_instance_of_its_own() -> None:
    system = system_of(1)
    fleet = system.fleet
    for number in (1, 2):
        name = fleet.launch(GROUPS[REPAIRED])
        fleet.instances[name] = replace(fleet.instances[name], case="c-1")
        system.ports.launcher.launch_calls.append(("c-1", f"t-{number}"))
        system.laws.after_call()
        pass_state(system, state(1, NodeStatus.FAILED, case=case(status=CaseStatus.ESCALATED)))
    assert laws_broken(system) == set()


def test_no_instance_is_released_while_two_nodes_have_none_that_another_tool_terminated() -> None:
    system = system_of(4)
    serve(system, 4)
    for number in (1, 2):
        system.fleet.terminate(instance(number))
        pass_state(system, state(number, NodeStatus.PROVISIONING))
    system.laws.before_call(Call("provider", "replace", (instance(3), "t")))
    assert laws_broken(system) == set()
    system.clock.advance(timedelta(minutes=5))
    system.laws.before_call(Call("provider", "replace", (instance(3), "t")))
    assert laws_broken(system) == set()  # a repeated call gives up no further instance
    system.laws.before_call(Call("provider", "replace", (instance(4), "t")))
    assert laws_broken(system) == {instances.TOO_MANY}


def test_nodes_whose_instances_another_tool_terminated_are_not_too_many() -> None:
    system = system_of(4)
    serve(system, 4)
    for number in (1, 2, 3):
        system.fleet.terminate(instance(number))
        system.laws.before_call(Call("provider", "replace", (instance(number), "t")))
        pass_state(system, state(number, NodeStatus.PROVISIONING))
    assert laws_broken(system) == set()  # another tool terminated them before


def test_three_nodes_whose_instances_were_released_alive_are_too_many() -> None:
    system = system_of(4)
    serve(system, 4)
    for number in (1, 2, 3):
        assert laws_broken(system) == set()
        system.laws.before_call(Call("provider", "replace", (instance(number), "t")))
        system.fleet.terminate(instance(number))
        pass_state(system, state(number, NodeStatus.PROVISIONING))
    assert laws_broken(system) == {instances.TOO_MANY}


def test_a_group_that_owes_a_successor_releases_no_instance() -> None:
    system = system_of(3)
    serve(system, 3)
    system.fleet.set_capacity(0)
    system.fleet.terminate(instance(1))
    waiting = replace(case(status=CaseStatus.IN_PROGRESS), id="c-waiting")
    pass_state(system, state(1, NodeStatus.PROVISIONING, case=waiting))
    system.laws.before_call(Call("provider", "replace", (instance(2), "t")))
    assert laws_broken(system) == set()
    system.clock.advance(timedelta(minutes=20))
    system.laws.before_call(Call("provider", "replace", (instance(3), "t")))
    assert laws_broken(system) == {instances.OWING}
    system.clock.advance(instances.WAIT_LIMIT)
    system.laws.swept()
    assert laws_broken(system) == {instances.OWING}  # no sweep has done all its work
    system.workers.swept_at = system.clock.now()
    system.laws.swept()
    assert laws_broken(system) == {instances.OWING, instances.UNPAGED}


@pytest.mark.parametrize(("mode", "broken"), [(Mode.ACT, {instances.UNPAGED}), (Mode.OBSERVE, set())])
def test_a_case_that_the_mode_does_not_admit_waits_for_no_successor(mode: Mode, broken: set[str]) -> None:
    system = system_of(1)
    serve(system, 1)
    system.ports.table.write(Put(items.config_item(ClusterConfig(REPAIRED, mode=mode), system.clock.now())))
    system.fleet.terminate(instance(1))
    pass_state(system, state(1, NodeStatus.PROVISIONING, case=case(waiting_for=WaitingFor.ADMISSION)))
    system.clock.advance(instances.WAIT_LIMIT + timedelta(minutes=1))
    system.workers.swept_at = system.clock.now()
    system.laws.swept()
    assert laws_broken(system) == broken


@pytest.mark.parametrize(
    ("then", "broken"), [(WaitingFor.CAPACITY, {instances.UNPAGED}), (WaitingFor.ISOLATION_BUDGET, set())]
)
def test_a_node_that_waits_for_a_slot_waits_for_no_capacity_after_its_group_got_an_instance(
    then: WaitingFor, broken: set[str]
) -> None:
    system = system_of(2)
    serve(system, 2)
    for waiting_for in (WaitingFor.CAPACITY, then):
        pass_state(system, state(1, NodeStatus.QUARANTINED, **LOST, case=case(waiting_for=waiting_for)))
    system.fleet.terminate(instance(2))
    provisioning = state(2, NodeStatus.PROVISIONING, case=replace(case(status=CaseStatus.IN_PROGRESS), id="c-other"))
    pass_state(system, provisioning)
    successor = system.fleet.launch(GROUPS[REPAIRED], at=system.clock.now())
    pass_state(system, replace(provisioning, incarnation=replace(provisioning.incarnation, instance_id=successor)))
    system.clock.advance(instances.WAIT_LIMIT + timedelta(minutes=1))
    system.workers.swept_at = system.clock.now()
    system.laws.swept()
    assert laws_broken(system) == broken


def test_a_reset_waits_for_no_repair_that_awaits_a_successor() -> None:
    system = system_of(2)
    serve(system, 2)
    system.fleet.set_capacity(0)
    system.fleet.terminate(instance(1))
    pass_state(
        system, state(1, NodeStatus.PROVISIONING, case=replace(case(status=CaseStatus.IN_PROGRESS), id="c-waiting"))
    )
    waits = case(RepairAction.RESET_GPU, waiting_for=WaitingFor.BUDGET)
    pass_state(system, state(2, NodeStatus.QUARANTINED, **LOST, case=waits))
    system.clock.advance(timedelta(hours=3))
    system.laws.swept()
    assert laws_broken(system) == {instances.BLOCKED}


@pytest.mark.parametrize(("attached", "found"), [("after", set()), ("before", {SLOTS})])
def test_a_repair_gives_its_slot_away_only_until_its_successor_is_attached(attached: str, found: set[str]) -> None:
    system = system_of(1)
    table, pk = system.ports.table, f"NODE#{REPAIRED}#node-1"
    waits = state(1, NodeStatus.PROVISIONING, case=replace(case(status=CaseStatus.IN_PROGRESS), id="c-1"))
    gone = replace(waits, incarnation=replace(waits.incarnation, gone_since=system.clock.now()))
    old = {**table.get(Key(pk, "STATE")), "state": dump(gone)}
    slots = {"pk": f"CLUSTER#{REPAIRED}", "sk": "CONTROL", "holders": {"c-1": "", "c-2": ""}, "version": 1}
    more = {**slots, "holders": {"c-1": "", "c-2": "", "c-3": ""}, "version": 2}
    records = [
        StreamRecord("MODIFY", Key(pk, "STATE"), table.get(Key(pk, "STATE")), old, 1, system.clock.now()),
        StreamRecord("MODIFY", Key(slots["pk"], "CONTROL"), more, slots, 2, system.clock.now()),
    ]
    table.stream += records if attached == "before" else records[::-1]
    system.checks.item_changed(records[1])
    assert laws_broken(system) == found


def test_a_sweep_without_time_for_its_work_is_repeated_within_a_quarter_of_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system, runs = system_of(1), []
    monkeypatch.setattr(system.workers, "sweep", lambda: runs.append(system.clock.now()))
    system.sweeps.within_a_minute()
    system.pass_time(timedelta(hours=6))
    assert max(after - before for before, after in pairwise(runs)) == timedelta(minutes=15)


def test_an_order_releases_only_the_instance_that_the_operator_saw() -> None:
    system = system_of(2)
    system.truth.seen["node-1"] = {instance(1)}
    ordered = reported(claimed=False, code="operator.replace", action=Action.REPLACE_NODE)
    pass_state(system, state(1, **ordered))
    system.laws.before_call(Call("provider", "replace", (instance(1), "t")))
    assert laws_broken(system) == set()
    pass_state(system, state(1, **ordered, backed_by=instance(2)))
    system.laws.before_call(Call("provider", "replace", (instance(2), "t")))
    assert operators.UNSEEN in laws_broken(system)


def test_the_first_failure_of_a_trial_ends_it() -> None:
    system = system_of(2)
    for law in system.laws.all:
        law.control_changed({"breakers": {"cluster": {"state": "half_open"}}})
    for step, outcome in (("intent", "committed"), ("verify", "failed"), ("intent", "committed")):
        assert laws_broken(system) == set()
        system.clock.advance(60)
        pass_entry(system, 1, step=step, outcome=outcome, repair_action="replace_node")
    assert laws_broken(system) == {breaker_trials.REPEATED}


def change_incident(system: SimulatedSystem, change: str, count: int, *, doubled: bool = False) -> None:
    to = "expired" if change == "expired" else "open"
    nodes = {"listed": [f"node-{one}" for one in range(1, count + 1)], "count": count}
    data = {"incident_id": "inc-1", "change": change, "to": to, "nodes": nodes, "doubled": doubled}
    pass_entry(system, 0, event_type="Cluster Incident Change", **data)


def page(system: SimulatedSystem, key: str) -> None:
    system.ports.pager.sent.append(PageMessage(key, PageUrgency.URGENT, "", {}, {"state": "triggered"}))
    system.laws.after_call()


def pass_an_hour_with_sweeps(system: SimulatedSystem) -> None:
    for _ in range(4):
        system.clock.advance(timedelta(minutes=16))
        system.workers.swept_at = system.clock.now()
        system.laws.swept()


def test_the_growth_of_an_incident_is_reported() -> None:
    system = system_of(1)
    change_incident(system, "opened", 4)
    page(system, f"{REPAIRED}:incident:inc-1")
    change_incident(system, "grown", 8, doubled=True)
    page(system, f"{REPAIRED}:incident:inc-1")
    pass_an_hour_with_sweeps(system)
    assert laws_broken(system) == set()
    change_incident(system, "grown", 16)
    pass_an_hour_with_sweeps(system)
    assert laws_broken(system) == {urgent_pages.UNREPORTED}


def test_the_growth_of_an_incident_is_compared_with_the_number_of_nodes_on_its_page() -> None:
    system = system_of(1)
    change_incident(system, "opened", 5)
    change_incident(system, "shrunk", 4)
    page(system, f"{REPAIRED}:incident:inc-1")
    change_incident(system, "grown", 8)
    pass_an_hour_with_sweeps(system)
    assert laws_broken(system) == set()
    change_incident(system, "grown", 10)
    system.clock.advance(timedelta(hours=1))
    system.laws.swept()  # a sweep that failed
    assert laws_broken(system) == set()
    pass_an_hour_with_sweeps(system)
    assert laws_broken(system) == {urgent_pages.UNREPORTED}


def test_the_expiry_of_an_incident_sends_one_urgent_page() -> None:
    system = system_of(1)
    change_incident(system, "expired", 4)
    page(system, f"{REPAIRED}:incident-expired:inc-1")
    assert laws_broken(system) == set()
    page(system, f"{REPAIRED}:breaker:rack-1")
    assert laws_broken(system) == {urgent_pages.STORM}


def test_only_calls_outside_of_the_table_reach_the_laws() -> None:
    system = system_of(1)
    system.laws.before_call(Call("table", "get", SimpleNamespace()))
    assert laws_broken(system) == set()


AT_RISK_FAULT = reported(claimed=False, code="xid.143", mode="gpu.init_failed")
ENDING_FAULT = reported(claimed=False, code="xid.79", mode="gpu.lost")


@pytest.mark.parametrize(("conditions", "found"), [(AT_RISK_FAULT, {running_work.ENDED}), (ENDING_FAULT, set())])
@pytest.mark.parametrize(
    "call",
    [
        Call("provider", "replace", (instance(1), "t")),
        Call("restarter", "restart", (RepairAction.RESET_GPU, instance(1), "t")),
    ],
)
def test_only_a_fault_that_ended_the_work_permits_a_repair_beside_it(
    conditions: dict[str, Any], found: set[str], call: Call
) -> None:
    system = system_of(1)
    pass_state(system, state(1, NodeStatus.REPAIRING, **conditions, case=case(status=CaseStatus.IN_PROGRESS)))
    system.laws.before_call(call)
    assert laws_broken(system) == set()
    system.truth.begin_work(instance(1), system.clock.now() + timedelta(hours=1))
    system.laws.before_call(call)
    assert laws_broken(system) == found


def ask(system: SimulatedSystem, job: str = "saves-1", *, request: str = "ckpt-1", node: str = "node-1") -> None:
    risk = {"node": node}
    pass_entry(system, 1, event_type="Job Checkpoint Requested", job_id=job, checkpoint_id=request, risk=risk,
               nodes={"listed": ["node-1", "node-2"]})  # fmt: skip


def endangered() -> SimulatedSystem:
    system = system_of(3)
    at_risk = reported(claimed=False, code="xid.143", mode="gpu.init_failed", work=WorkEffect.AT_RISK)
    pass_state(system, state(1, NodeStatus.DEGRADED, **at_risk, case=case()))
    return system


@pytest.mark.parametrize(
    ("minutes", "request_id", "found"),
    [(9, "ckpt-2", {checkpoints.AGAIN}), (9, "ckpt-1", set()), (10, "ckpt-2", set())],
)
def test_a_job_may_be_asked_again_after_ten_minutes_or_with_an_earlier_deadline(
    minutes: int, request_id: str, found: set[str]
) -> None:
    system = endangered()
    ask(system)
    system.clock.advance(60 * minutes)
    ask(system, request=request_id)
    assert laws_broken(system) == found


@pytest.mark.parametrize(("node", "found"), [("node-1", set()), ("node-2", {checkpoints.UNFOUNDED})])
def test_a_request_names_a_node_whose_work_is_at_risk(node: str, found: set[str]) -> None:
    system = endangered()
    ask(system, node=node)
    assert laws_broken(system) == found


def test_a_request_after_its_fault_ended_is_unfounded() -> None:
    system = endangered()
    pass_state(system, state(1))
    system.clock.advance(60)
    ask(system)
    assert laws_broken(system) == set()
    system.clock.advance(3600)
    ask(system, request="ckpt-2")
    assert laws_broken(system) == {checkpoints.UNFOUNDED}


@pytest.mark.parametrize(("job", "answered", "found"), [("saves-1", True, []), ("ignores-1", False, []),
                                                        ("saves-1", False, [checkpoints.UNANSWERED])])  # fmt: skip
def test_the_answer_of_a_job_that_saves_must_arrive(job: str, answered: bool, found: list[str]) -> None:
    system = endangered()
    ask(system, job)
    if answered:
        pass_entry(system, 1, event_type="Job Change", job_id=job, change="checkpointed")
    system.clock.advance(2 * 3600)
    assert [line.split(": ")[0] for line in system.laws.ended()] == found
