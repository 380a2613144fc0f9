"""Passes what happens in a run to all laws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import keys
from faultbridge.model.storage.items import stored_value
from tests.sim.fakes.stored_values import body_of
from tests.sim.laws import (
    breaker_trials,
    checkpoints,
    instances,
    isolation_budget,
    lost_reports,
    operators,
    running_work,
    urgent_pages,
)
from tests.sim.laws.law import CLUSTER

if TYPE_CHECKING:
    from tests.sim.fakes.seam import Call
    from tests.sim.fakes.table import StreamRecord
    from tests.sim.laws.law import Law
    from tests.sim.simulated_system import SimulatedSystem

NODES = f"NODE#{CLUSTER}#"
LAWS = frozenset(
    {
        breaker_trials.REPEATED, checkpoints.AGAIN, checkpoints.UNANSWERED, checkpoints.UNFOUNDED, instances.BLOCKED,
        instances.GHOST, instances.LAUNCHED_TWICE, instances.OWING, instances.SHARED, instances.TOO_MANY,
        instances.UNPAGED, isolation_budget.OVER_BUDGET, isolation_budget.OVER_PERMITS, lost_reports.DROPPED,
        operators.UNSEEN, running_work.CHANGED, running_work.DIAGNOSED, running_work.ENDED, running_work.EVICTED,
        running_work.FORCED, running_work.FORGED, running_work.REFUTED, urgent_pages.STORM, urgent_pages.UNREPORTED,
    }
)  # fmt: skip
"""The names of all laws."""


class Laws:
    """All laws of one run; they check the cluster that Faultbridge repairs. `all` lists them."""

    def __init__(self, system: SimulatedSystem) -> None:
        self._system = system
        self._budget = isolation_budget.IsolationBudget(system)
        self.all: tuple[Law, ...] = (
            self._budget,
            running_work.WorkLaw(system),
            instances.InstanceLaw(system),
            urgent_pages.PageLaw(system),
            operators.OrderLaw(system),
            breaker_trials.TrialLaw(system),
            lost_reports.ReportLaw(system),
            checkpoints.CheckpointLaw(system),
        )

    @property
    def out_of_service(self) -> frozenset[str]:
        """The names of the nodes that take no new work now."""
        return self._budget.out_of_service

    def item_changed(self, record: StreamRecord) -> None:
        """Pass a change of an item of the cluster to all laws."""
        sk, new = record.key.sk, record.new
        if new is None or not (record.key.pk.startswith(NODES) or record.key.pk == f"CLUSTER#{CLUSTER}"):
            return
        if sk == "STATE" and record.key.pk.startswith(NODES):
            state = stored_value(NodeState, new, "state")
            for law in self.all:
                law.node_changed(state)
        elif sk == "CONTROL":
            for law in self.all:
                law.control_changed(new)
        elif sk.startswith(keys.ENTRY) and record.event == "INSERT":
            body = body_of(new)
            for law in self.all:
                law.entry_added(body)

    def before_call(self, call: Call) -> None:
        """Pass a call that changes something outside of the table to all laws."""
        if call.port in {"provider", "restarter", "verifier"}:
            for law in self.all:
                law.before_call(call)

    def after_call(self) -> None:
        """Let all laws check the effects of the last scheduled call."""
        for law in self.all:
            law.after_call()

    def swept(self) -> None:
        """Let all laws check what depends on the passage of time."""
        for law in self.all:
            law.swept()

    def restored(self) -> None:
        """Let all laws forget what the restored table does not know."""
        for law in self.all:
            law.restored()

    def ended(self) -> Iterator[str]:
        """Yield a line of text for each violation that shows only at the end of a run."""
        for law in self.all:
            yield from (f"{name}: {text}" for name, text in law.ended())
