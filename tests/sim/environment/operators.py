"""Actions of operators: orders about cases, nodes and clusters. Each kind of action has a method."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from faultbridge.model.cases import Case
from faultbridge.model.errors import IllegalTransition, Rejected
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import keys
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.wiring.installation import Installation
from faultbridge.serve.wiring.services import (
    wire_case_orders,
    wire_controls,
    wire_node_orders,
    wire_registration,
    wire_rejects,
    wire_retirement,
)
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import Actions, pick
from tests.sim.fault_injection import Crash
from tests.sim.invariants.view import SystemView
from tests.sim.policies import hashed
from tests.sim.simulated_system import GROUPS, REPAIRED

ORDER = OperatorOrder("arn:aws:iam::111122223333:role/operator", "seen")
Command = Callable[[Installation], object]


class OperatorActions(Actions):
    """Carries out the actions of operators, such as orders about cases, in a simulated system.

    An operator repeats a command that failed or got no answer.
    """

    def _approve(self, action: ExternalAction) -> None:
        self._order_case("approve", action, lambda app, case: wire_case_orders(app).approve(case, ORDER))

    def _deny(self, action: ExternalAction) -> None:
        self._order_case("deny", action, lambda app, case: wire_case_orders(app).deny(case, ORDER))

    def _cancel(self, action: ExternalAction) -> None:
        self._order_case("cancel", action, lambda app, case: wire_case_orders(app).cancel(case, ORDER))

    def _replace(self, action: ExternalAction) -> None:
        self._order_node("replace", action, self._replace_shown)

    def _replace_shown(self, app: Installation, node: NodeKey) -> None:
        """Replace the instance that the node shows now; the operator looked at it just before the order."""
        found = next((one for one in self._nodes() if one.key == node), None)
        instance = found.incarnation.instance_id if found and found.incarnation else None
        self.system.truth.seen.setdefault(node.node, set()).add(str(instance))
        replace_seen(app, node, instance)

    def _quarantine(self, action: ExternalAction) -> None:
        self._order_node("quarantine", action, lambda app, node: wire_node_orders(app).quarantine(node, ORDER))

    def _return(self, action: ExternalAction) -> None:
        """Return a node to service: a node with an escalated case, if there is one.

        Two times in three, the operator first fixes the instance of such a node.
        """
        escalated = [state for state in self._nodes() if _is_escalated(state)]
        if escalated and action.selector % 3:
            self.system.health.fix(pick(escalated, action.selector))
        self._order_node("return", action, lambda app, node: wire_node_orders(app).return_node(node, ORDER), escalated)

    def _ignore(self, action: ExternalAction) -> None:
        """Exclude a node from repairs, for 5 to 124 minutes or until an operator ends the exclusion."""
        span = timedelta(minutes=5 + action.selector % 120)
        until = self.system.clock.now() + span if action.fraction < 0.8 else None
        self._order_node("ignore", action, lambda app, node: wire_node_orders(app).ignore(node, ORDER, until))

    def _heed(self, action: ExternalAction) -> None:
        """End the exclusion of a node from repairs; choose a node that operators excluded, if there is one."""
        ignored = [state for state in self._nodes() if state.ignored]
        self._order_node(
            "stop ignoring", action, lambda app, node: wire_node_orders(app).end_ignore(node, ORDER), ignored
        )

    def _retire(self, action: ExternalAction) -> None:
        self._order_node("retire", action, lambda app, node: wire_retirement(app).retire(node, ORDER))

    def _register_node(self, action: ExternalAction) -> None:
        retired = [state.key.node for state in self._nodes() if state.status == "retired"]
        name = pick([f"new-{one}" for one in range(3)] + retired, action.selector)
        self._log(f"an operator registers {name}")
        instance = self.system.fleet.launch(GROUPS[REPAIRED])
        self.system.node_names[instance] = name
        node = NewNode(name, instance, GROUPS[REPAIRED])
        self.run_command(lambda app: wire_registration(app).add_node(REPAIRED, node))

    def _pause_repairs(self, _action: ExternalAction) -> None:
        self._log("an operator pauses repairs")
        self.run_command(lambda app: wire_controls(app).pause(REPAIRED))

    def _resume_repairs(self, _action: ExternalAction) -> None:
        self._log("an operator resumes repairs")
        self.run_command(lambda app: wire_controls(app).resume(REPAIRED, force=True))

    def _close_breakers(self, _action: ExternalAction) -> None:
        self._log("an operator closes the breakers")
        self.run_command(lambda app: wire_controls(app).close_breakers(REPAIRED))

    def _change_limits(self, action: ExternalAction) -> None:
        limits = replace(
            self.system.policy.limits,
            concurrent=1 + action.selector % 3,
            per_hour=1 + action.selector % 7,
            attempts=1 + action.selector % 4,
        )
        number = action.selector % 84
        self._log(
            f"policy {number}: {limits.concurrent} at once, {limits.per_hour} an hour, {limits.attempts} attempts"
        )
        document = hashed(replace(self.system.policy, limits=limits))
        self.system.checks.limits.append(limits)
        self.run_command(lambda app: PolicyStore(app.ports.table, app.ports.clock).put(document))

    def _retry_rejects(self, _action: ExternalAction) -> None:
        self._log("an operator retries the rejects")
        self.run_command(_retry_all)
        self.system.queue.poll_soon()

    def _order_case(self, verb: str, action: ExternalAction, order: Callable[[Installation, str], object]) -> None:
        """Give an order about a live case of the `REPAIRED` cluster; without a live case, do nothing.

        If a case waits for approval, such a case is chosen three times in four. `order` is called with the id of the
        case. `verb` names the order in the journal.
        """
        live = [state.live_case for state in self._nodes() if state.live_case is not None]
        asked: list[Case] = [case for case in live if case.pending_approval is not None]
        if found := asked if asked and action.selector % 4 else live:
            case_id = pick(found, action.selector).id
            self._log(f"an operator orders: {verb} {case_id}")
            self.run_command(lambda app: order(app, case_id))

    def _order_node(
        self,
        verb: str,
        action: ExternalAction,
        order: Callable[[Installation, NodeKey], object],
        preferred: list[NodeState] | None = None,
    ) -> None:
        """Give an order about one of the `preferred` nodes; if there are none, about any registered node.

        `order` is called with the node's key. `verb` names the order in the journal.
        """
        if found := preferred or self._nodes():
            key = pick(found, action.selector).key
            self._log(f"an operator orders: {verb} {key.node}")
            self.run_command(lambda app: order(app, key))

    def _nodes(self) -> list[NodeState]:
        view = SystemView(self.system)
        return [state for state in view.nodes if state.key.cluster == REPAIRED and state.registered]

    def run_command(self, command: Command, tries: int = 20) -> None:
        """Run an operator's command; if it fails, run it again after 30 seconds, at most `tries` times.

        A refusal by the product (`Rejected`) is no failure, except `IllegalTransition`.
        """
        try:
            self.system.workers.operate(lambda app: _accept_refusal(app, command))
        except (Crash, Exception):  # noqa: BLE001 - an operator without an answer runs the command again
            if tries:
                self.system.schedule.after(30, "operator", lambda: self.run_command(command, tries - 1))


def _accept_refusal(app: Installation, command: Command) -> None:
    """Run a command, and ignore the error `Rejected`, by which the product refuses an order.

    A refusal is correct if the current state does not permit the order. The error `IllegalTransition`, a kind of
    `Rejected`, is raised, because it shows an error of the product.
    """
    try:
        command(app)
    except IllegalTransition:
        raise
    except Rejected:
        return


def replace_seen(app: Installation, key: NodeKey, instance: str | None) -> object:
    """Order a replacement, and name the instance that the operator saw if the order can name one."""
    order: Any = wire_node_orders(app).replace
    named = [one for one in inspect.signature(order).parameters if "instance" in one]
    return order(key, ORDER, **dict.fromkeys(named, instance))


def _is_escalated(state: NodeState) -> bool:
    return state.live_case is not None and state.live_case.status == "escalated"


def _retry_all(app: Installation) -> None:
    for reject in [*wire_rejects(app).list(REPAIRED), *wire_rejects(app).list(keys.NO_CLUSTER)]:
        wire_rejects(app).retry(reject)
