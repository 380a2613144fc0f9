"""Exploration: which states operators, faults and outages lead to, and whether each has a way out.

`python -m tests.scenarios.exploration SECONDS [KIND...]` explores for so many processor seconds a kind of cluster.
"""

from __future__ import annotations

import copy
import logging
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from faultbridge.decide.answers import node_answer
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import Isolation, NodeStatus, ProviderFailure, RepairAction
from faultbridge.model.errors import FaultbridgeError, Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Limits, Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.registry.retirement import Retirement
from tests.scenarios.provider.external_replacement import ExternalReplacement
from tests.scenarios.world import CLUSTER, GROUP, World

ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "exploring")
MINUTE = timedelta(minutes=1)
SHORT = Limits(
    attempts=2,
    drain_deadline=10 * MINUTE,
    verify_deadline=30 * MINUTE,
    launch_deadline=30 * MINUTE,
    repair_deadline=10 * MINUTE,
    follow_deadline=20 * MINUTE,
)
ASKING = Rule(
    "asking",
    approval=(RepairAction.REBOOT_NODE, RepairAction.REPLACE_NODE),
    approval_deadline=30 * MINUTE,
    release_without_capacity=True,
)
KINDS: dict[str, tuple[Rule, ...]] = {
    "plain": (),
    "asking": (ASKING,),
    "waiting": (Rule("waiting", wait_seconds=600, release_without_capacity=True),),
    "provider": (),
}
LINK = "net.link_down"
REBOOT = {"severity": Severity.ERROR, "action": Action.REBOOT_NODE}
SUPPORT = {"severity": Severity.ERROR, "action": Action.CONTACT_SUPPORT}
MAX_COMMANDS = 6
MAX_WAIT = timedelta(hours=6)
"""Two nodes that wait for an incident, and then for each other's repair, need up to four hours."""

PAIR = "pair"
"""The kind of cluster of which two nodes of a rack are explored together, with its budget, breaker and incidents."""

Act = Callable[["Explored"], object]


class Explored(World):
    """A cluster of which some nodes are explored, by their numbers."""

    explored: tuple[int, ...] = (1,)


def world_of(kind: str) -> Explored:
    """Build a cluster with short deadlines: Faultbridge repairs, or in kind `provider` the provider."""
    if kind == PAIR:
        return _pair()
    world = Explored(rules=KINDS[kind], limits=SHORT, orchestrated=True)
    if kind == "provider":
        _registration(world).set_cluster(CLUSTER, {"repair_owner": RepairOwner.PROVIDER})
    return world


def _pair() -> Explored:
    """Build a rack of three nodes, of which two are explored: one repair at a time and an hour, and a breaker."""
    world = Explored(
        nodes=3,
        limits=replace(SHORT, concurrent=1, per_hour=1),
        orchestrated=True,
        breakers=(BreakerLimit(nodes=2, percent=50, openings=2),),
        domain=lambda _: "rack-1",
    )
    world.explored = (1, 2)
    return world


def _registration(world: Explored) -> Registration:
    return Registration(world.table, world.append, world.clock)


def _config(world: Explored) -> ClusterConfig:
    return _registration(world).cluster(CLUSTER)


def _pass_time(world: Explored) -> None:
    """Advance to the next timer of a node, at least one minute and at most ten, and sweep."""
    now = world.clock.now()
    waits = [min(10 * MINUTE, due - now) for node in world.explored if (due := world.node(node).due_at)]
    world.clock.advance(max(MINUTE, min(waits, default=10 * MINUTE)))
    world.workflow.expire_tokens()
    world.sweep.run()
    world.process_entries()


def _pass_hour(world: Explored) -> None:
    for _ in range(6):
        _pass_time(world)


def _order(give: Act) -> Act:
    """Return an act in which an operator gives an order, which may be rejected."""

    def act(world: Explored) -> None:
        try:
            give(world)
        except Rejected:
            return
        world.process_entries()

    return act


def _case_order(verb: str, node: int = 1) -> Act:
    return _order(lambda world: world.node(node).case and getattr(world.orders, verb)(world.case(node).id, ADA))


def _node_order(verb: str, node: int = 1) -> Act:
    return _order(lambda world: getattr(world.node_orders, verb)(world.key(node), ADA))


def _fault(code: str, **others: Any) -> Act:
    return lambda world: world.fault_and_react(code=code, **others)


def _mode(mode: Mode) -> Act:
    return lambda world: world.set_mode(mode)


def _clear(world: Explored, node: int = 1) -> None:
    for code in ("xid.79", "xid.48", "xid.119"):
        world.clear(node, code=code)
    world.process_entries()


def _links(*, up: bool) -> Act:
    """Return an act in which all nodes of the rack lose their links, or have them again."""

    def act(world: Explored) -> None:
        for node in (1, 2, 3):
            world.clear(node, LINK, source="link-state") if up else world.fault(node, LINK, source="link-state")
        world.process_entries()

    return act


def _cordon_without_answer(world: Explored) -> None:
    cordon = world.orchestrator.cordon

    def lose_answer(member: ClusterNode) -> CallResult:
        cordon(member)
        return CallResult(ProviderFailure.TIMEOUT, "the answer was lost", no_response=True)

    world.orchestrator.cordon = lose_answer  # type: ignore[method-assign]
    world.fault_and_react()
    del world.orchestrator.cordon


def _terminate(world: Explored) -> None:
    incarnation, fleet = world.node().incarnation, world.fleet
    if incarnation is not None and incarnation.instance_id in fleet.instances:
        former = fleet.instances[incarnation.instance_id]
        fleet.instances[incarnation.instance_id] = replace(former, alive=False)
    ExternalReplacement(world).run_inventory()


def _replace_externally(world: Explored) -> None:
    external = ExternalReplacement(world)
    external.replace_instance()
    external.run_inventory()


def _orchestrator_down(world: Explored) -> None:
    world.orchestrator.unreachable_until = world.clock.now() + timedelta(days=900)


def _no_capacity(world: Explored) -> None:
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)


def _refuse_replacements(world: Explored) -> None:
    for _ in range(3):
        world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)


def _fail_verification(world: Explored) -> None:
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))


ACTS: dict[str, Act] = {
    "minute": lambda world: world.advance_minutes(),
    "hour": _pass_hour,
    "fatal": _fault("xid.79"),
    "reboot": _fault("xid.48", **REBOOT),
    "support": _fault("xid.119", **SUPPORT),
    "clear": _clear,
    "cordon without answer": _cordon_without_answer,
    "approve": _case_order("approve"),
    "deny": _case_order("deny"),
    "cancel": _case_order("cancel"),
    "replace": _node_order("replace"),
    "quarantine": _node_order("quarantine"),
    "return": _node_order("return_node"),
    "ignore": _order(lambda world: NodeOrders(world.append, world.rulebook).ignore(world.key(), ADA)),
    "pause": lambda world: world.pause_repairs(paused=True),
    "resume": lambda world: world.pause_repairs(paused=False),
    "observe": _mode(Mode.OBSERVE),
    "dry run": _mode(Mode.DRY_RUN),
    "act": _mode(Mode.ACT),
    "orchestrator down": _orchestrator_down,
    "replaced externally": _replace_externally,
    "terminated": _terminate,
    "no capacity": _no_capacity,
    "replacements refused": _refuse_replacements,
    "verification fails": _fail_verification,
}


def _acts_on(node: int) -> dict[str, Act]:
    """Return the acts on one node of a pair."""
    return {
        f"fatal {node}": _fault("xid.79", node=node),
        f"reboot {node}": _fault("xid.48", node=node, **REBOOT),
        f"clear {node}": lambda world: _clear(world, node),
        f"cancel {node}": _case_order("cancel", node),
        f"replace {node}": _node_order("replace", node),
        f"quarantine {node}": _node_order("quarantine", node),
        f"return {node}": _node_order("return_node", node),
    }


COMMON = ("minute", "hour", "pause", "resume", "orchestrator down", "no capacity", "verification fails")
PAIR_ACTS: dict[str, Act] = {
    **_acts_on(1),
    **_acts_on(2),
    "links down": _links(up=False),
    "links up": _links(up=True),
    **{name: ACTS[name] for name in COMMON},
}


def _node_state(world: Explored, node: int) -> tuple[Any, ...]:
    state = world.node(node)
    case = state.live_case
    attempt = case.attempt if case else None
    return (
        state.status,
        state.isolation,
        case and (case.status, case.waiting_for, case.repair_action, case.cancelled, case.isolate, case.approved),
        case and case.pending_approval is not None,
        attempt and (attempt.phase, attempt.step, attempt.step in attempt.steps, attempt.intent is not None),
        tuple(sorted({condition.action for condition in state.active()})),
        (state.ignored is not None, state.case_deferred_until is not None),
    )


def state_key(world: Explored) -> tuple[Any, ...]:
    """Return what distinguishes a state: status, isolation, case, attempt, conditions and exclusions of its nodes.

    The pause and mode of the cluster belong to it, and its breakers, budget and incidents.
    """
    control = world.control()
    breakers = tuple(sorted((name, one.state) for name, one in control.breakers.items()))
    cluster = control.paused, _config(world).mode, breakers, control.budget_used_up, len(control.holds)
    return (*(_node_state(world, node) for node in world.explored), cluster)


def _outages(world: Explored) -> tuple[Any, ...]:
    return world.orchestrator.unreachable_until is None, world.provider.known_capacity, world.verifier.result.verdict


def _end_outages(world: Explored) -> None:
    world.orchestrator.unreachable_until = None
    world.orchestrator.failures.clear()
    world.provider.failures.clear()
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    world.verifier.result = Verification(Verdict.PASSED)
    incarnation = world.node().incarnation
    if incarnation is None or incarnation.instance_id is None:
        return
    if _config(world).repair_owner is RepairOwner.PROVIDER and not world.fleet.is_alive(incarnation.instance_id):
        world.fleet.launch(GROUP)


def _is_final(world: Explored, node: int) -> bool:
    state = world.node(node)
    if state.status is NodeStatus.RETIRED:
        return state.live_case is None
    in_service = state.status is not None and state.status.in_service
    if not in_service or state.live_case is not None or state.isolation is not Isolation.NONE:
        return False
    assert state.key.node not in world.orchestrator.cordoned, "a serving node without a case is cordoned"
    return True


def _required(world: Explored) -> str | None:
    """Return the first command that a node waits for."""
    config, now, control = _config(world), world.clock.now(), world.control()
    found = (node_answer(world.node(node), config, control, now) for node in world.explored)
    return next((one.commands[0] for one in found if one.needs_you), None)


def _run(world: Explored, command: str) -> None:
    """Run a required command on the services that the command line calls."""
    match shlex.split(command)[1:]:
        case ["node", "return", node, *_]:
            world.node_orders.return_node(NodeKey(CLUSTER, node), ADA)
        case ["node", "replace", node, "--cluster", _, "--instance", instance]:
            world.node_orders.replace(NodeKey(CLUSTER, node), ADA, instance=instance)
        case ["node", "retire", node, *_]:
            Retirement(world.table, world.append, world.rulebook).retire(NodeKey(CLUSTER, node), ADA)
        case ["node", "ignore", node, "--cluster", _, "--end"]:
            NodeOrders(world.append, world.rulebook).end_ignore(NodeKey(CLUSTER, node), ADA)
        case ["case", "approve", case, "--repair-action", action]:
            world.orders.approve(case, ADA, action=RepairAction(action))
        case ["resume", *_]:
            world.pause_repairs(paused=False)
        case ["breaker", "--cluster", _, "--close"]:
            world.controls.close_breakers(CLUSTER)
        case ["cluster", "set", _, "--mode", "act"]:
            world.set_mode(Mode.ACT)
        case _:
            raise AssertionError(command)
    world.process_entries()


def check_way_out(world: Explored) -> list[str]:
    """Check that time and required commands lead every node to a final state once all outages ended.

    Returns the commands.
    """
    _end_outages(world)
    commands: list[str] = []
    while len(commands) <= MAX_COMMANDS * len(world.explored):
        until = world.clock.now() + MAX_WAIT
        while world.clock.now() < until:
            if all(_is_final(world, node) for node in world.explored):
                return commands
            if _required(world) is not None:
                break
            _pass_time(world)
            if _config(world).repair_owner is RepairOwner.PROVIDER:
                ExternalReplacement(world).run_inventory()
        required = _required(world)
        assert required is not None, f"neither time nor a command moves {state_key(world)} after {commands}"
        without_instance = any(world.status(node) is NodeStatus.PROVISIONING for node in world.explored)
        assert without_instance or "retire" not in required, f"only retirement is left: {state_key(world)}"
        commands.append(required)
        _run(world, required)
    raise AssertionError(f"commands without end: {commands}, {state_key(world)}")


def _copy(world: Explored) -> Explored:
    """Copy a world. Stored items are never changed in place, so they are shared; streams and calls start empty."""
    world.table.stream.clear()
    world._streamed = 0
    world.table._tokens.clear()
    world.seam.calls.clear()
    items = [item for partition in world.table._partitions.values() for item in partition.values()]
    return copy.deepcopy(world, {id(item): item for item in items})


def explore(kind: str, more: Callable[[int], bool]) -> Iterator[tuple[tuple[str, ...], Explored]]:
    """Yield each new state breadth first, with the acts that lead to it, while `more` permits so many states."""
    start = world_of(kind)
    seen, keys, waiting = {(state_key(start), _outages(start))}, {state_key(start)}, [((), start)]
    for path, world in waiting:
        for name, act in (PAIR_ACTS if kind == PAIR else ACTS).items():
            if not more(len(keys)):
                return
            after = _copy(world)
            act(after)
            key = state_key(after)
            if (key, _outages(after)) in seen:
                continue
            seen.add((key, _outages(after)))
            waiting.append(((*path, name), after))
            if key not in keys:
                keys.add(key)
                yield (*path, name), _copy(after)


def main(seconds: float, kinds: list[str]) -> None:
    """Explore each kind for so many processor seconds, and print the number of states and each violation."""
    logging.disable(logging.CRITICAL)
    for kind in kinds or [*KINDS, PAIR]:
        until, states, path = time.process_time() + seconds, 0, ()
        for path, world in explore(kind, lambda _, until=until: time.process_time() < until):
            states += 1
            try:
                check_way_out(world)
            except (AssertionError, FaultbridgeError) as error:
                sys.stdout.write(f"{kind} {path}: {type(error).__name__}: {error}\n")
        sys.stdout.write(f"{kind}: {states} states, the last after {len(path)} acts: {path}\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
