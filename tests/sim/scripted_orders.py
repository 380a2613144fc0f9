"""Operator orders as scripted events: `exhaustive` gives each order right before a chosen side effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum

from faultbridge.model.errors import IllegalTransition, Rejected
from faultbridge.model.nodes import NodeKey
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.wiring.installation import Installation
from faultbridge.serve.wiring.services import wire_case_orders, wire_controls, wire_node_orders, wire_retirement
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Kind
from tests.sim.simulated_system import REPAIRED, SimulatedSystem

BY = OperatorOrder("arn:aws:iam::111122223333:role/operator", "scripted")
NODE = NodeKey(REPAIRED, "node-1")
SPAN = timedelta(hours=1)
"""How long a scripted pause or ignore lasts, so that the system becomes idle afterwards."""


class Order(StrEnum):
    """The orders that an operator can give about the node of a scenario, its case, or its cluster."""

    APPROVE = "approve"
    DENY = "deny"
    CANCEL = "cancel"
    REPLACE = "replace"
    QUARANTINE = "quarantine"
    RETURN = "return"
    IGNORE = "ignore"
    RETIRE = "retire"
    PAUSE = "pause"


_CASE_ORDERS: Mapping[Order, Callable[[Installation, str], object]] = {
    Order.APPROVE: lambda app, case: wire_case_orders(app).approve(case, BY),
    Order.DENY: lambda app, case: wire_case_orders(app).deny(case, BY),
    Order.CANCEL: lambda app, case: wire_case_orders(app).cancel(case, BY),
}
_NODE_ORDERS: Mapping[Order, Callable[[Installation], object]] = {
    Order.REPLACE: lambda app: wire_node_orders(app).replace(NODE, BY),
    Order.QUARANTINE: lambda app: wire_node_orders(app).quarantine(NODE, BY),
    Order.RETURN: lambda app: wire_node_orders(app).return_node(NODE, BY),
    Order.IGNORE: lambda app: wire_node_orders(app).ignore(NODE, BY, app.ports.clock.now() + SPAN),
    Order.RETIRE: lambda app: wire_retirement(app).retire(NODE, BY),
    Order.PAUSE: lambda app: wire_controls(app).pause(REPAIRED),
}


def give(order: Order, system: SimulatedSystem) -> None:
    """Give an order about the node of the system, its live case or its cluster.

    An order about a case has no effect without a live case. A refusal is added to the journal. A pause of the repairs
    ends after an hour.
    """
    app = system.workers.application()
    cases = [state.live_case.id for state in SystemView(system).nodes if state.live_case is not None]
    try:
        if order in _NODE_ORDERS:
            _NODE_ORDERS[order](app)
        elif cases:
            _CASE_ORDERS[order](app, cases[0])
    except IllegalTransition as error:
        system.journal.add_violation("an order is accepted or refused", f"{order}: {error}")
    except Rejected as refusal:
        system.journal.add(Kind.NOTE, f"{order}: {refusal}")
    if order is Order.PAUSE:
        system.schedule.after(SPAN.total_seconds(), "operator", lambda: _resume(app))


def _resume(app: Installation) -> None:
    wire_controls(app).resume(REPAIRED, force=True)
