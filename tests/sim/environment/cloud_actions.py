"""Actions of the cloud, such as failing calls, bad instances, aborted executions and outages.

The module also has the base class of all external actions.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.model.enums import NodeStatus, ProviderFailure
from faultbridge.model.isolation import takes_work
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.record.ports.compute import Restart, RestartState, Verdict, Verification
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.fault_injection import Outage
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Kind
from tests.sim.simulated_system import REPAIRED, SimulatedSystem

HOUR = 3600.0
CAPACITY_SHORTAGE = 2 * HOUR
_PROVIDER_FAILURES = (
    ProviderFailure.CAPACITY,
    ProviderFailure.THROTTLED,
    ProviderFailure.CONFLICT,
    ProviderFailure.TIMEOUT,
    ProviderFailure.AMBIGUOUS,
    ProviderFailure.PROVIDER_ERROR,
)
_ORCHESTRATOR_FAILURES = (ProviderFailure.THROTTLED, ProviderFailure.TIMEOUT, ProviderFailure.CONFLICT)


def pick(items: Any, number: int) -> Any:
    """Return the item of a sequence at the index `number` modulo the length of the sequence."""
    return items[number % len(items)]


class Actions:
    """Base class of the classes that carry out external actions, one kind of action in each method."""

    def __init__(self, system: SimulatedSystem) -> None:
        self.system = system

    def _log(self, text: str) -> None:
        self.system.journal.add(Kind.ACTION, text)


class CloudActions(Actions):
    """Injects cloud events into a simulated system, such as failures of AWS calls."""

    def _provider_failure(self, action: ExternalAction) -> None:
        """Make the next replacement of an instance fail, or the next launch from a launch template.

        One time in five, `probe` of the provider also returns UNKNOWN for every instance, until the next action of this
        kind.
        """
        failure = pick(_PROVIDER_FAILURES, action.selector)
        effect = _takes_effect(failure, action)
        self._log(f"the provider's next call fails: {failure.value}{', with effect' if effect else ''}")
        ports = self.system.ports
        port = ports.launcher if self.system.by_template and action.selector % 2 else ports.provider
        port.fail_next(failure, effect=effect)
        ports.provider.probe_unknown = action.fraction > 0.8

    def _restart_failure(self, action: ExternalAction) -> None:
        """Make the next call that restarts an instance fail.

        One time in five, the status of every restart is also UNKNOWN until the next action of this kind. One time in
        three, every restart of one instance also ends as FAILED.
        """
        failure = pick((*_PROVIDER_FAILURES, ProviderFailure.NOT_FOUND), action.selector)
        self._log(f"the next restart fails: {failure.value}")
        restarter = self.system.ports.restarter
        restarter.fail_next(failure, effect=_takes_effect(failure, action))
        restarter.status_unknown = action.fraction > 0.8
        if action.selector % 3 == 0:
            failing = pick([*self.system.fleet.instances], action.selector)
            restarter.results[failing] = Restart(RestartState.FAILED, "scripted")

    def _external_termination(self, action: ExternalAction) -> None:
        found = [state for state in SystemView(self.system).nodes if _is_being_repaired(state)]
        if found:
            instance = pick(found, action.selector).incarnation.instance_id
            self._log(f"another tool terminates {instance}")
            self.system.externally_terminated.add(instance)
            self.system.fleet.terminate(instance)

    def _verification_result(self, action: ExternalAction) -> None:
        """Make the verifications of one instance return UNKNOWN or FAILED, whatever its true health is."""
        verdict = Verdict.UNKNOWN if action.selector % 2 else Verdict.FAILED
        instance = pick([*self.system.fleet.instances], action.selector)
        self._log(f"the verification of {instance} will return {verdict.value}")
        self.system.ports.verifier.results[instance] = Verification(verdict, ("scripted",))

    def _orchestrator_failure(self, action: ExternalAction) -> None:
        failure = pick(_ORCHESTRATOR_FAILURES, action.selector)
        self._log(f"the scheduler's next calls fail: {failure.value}")
        self.system.ports.orchestrator.fail_next(*[failure] * (1 + action.selector % 4))

    def _capacity_change(self, action: ExternalAction) -> None:
        if self.system.lasting_shortage:
            return
        left = action.selector % 2
        self._log(f"capacity is left for {left} instances")
        self.system.fleet.set_capacity(left)
        if self.system.by_template or self.system.ports.provider.reserved:
            # Without capacity, a case is retried again and again. Weeks of retries test no more than hours.
            self.system.schedule.after(CAPACITY_SHORTAGE, "cloud", self._end_shortage)

    def _end_shortage(self) -> None:
        if not self.system.lasting_shortage:
            self.system.fleet.set_capacity(None)

    def _bad_arrival(self, _action: ExternalAction) -> None:
        """Make the next new instance without a node name bad, so that it fails its verification."""
        self._log("the next new instance is bad")
        self.system.health.bad_arrivals += 1

    def _running_job(self, action: ExternalAction) -> None:
        """Keep a job running on a node for up to an hour, so that a drain of the node must wait."""
        node = f"node-{action.selector % 4 + 1}"
        until = self.system.clock.now() + timedelta(seconds=action.fraction * HOUR)
        self._log(f"a job runs on {node} until {until:%H:%M}")
        self.system.ports.orchestrator.busy_until[node] = until
        if instance := self._instance_that_takes_work(node):
            self.system.truth.work[instance] = until

    def _instance_that_takes_work(self, node: str) -> str | None:
        """Return the instance of a node of the `REPAIRED` cluster; None if the node is cordoned or out of service."""
        key = NodeKey(REPAIRED, node)
        state = items.read_state(key, self.system.ports.table.get(keys.node_state(key)))
        return state.incarnation.instance_id if state.incarnation and takes_work(state) else None

    def _abort_execution(self, action: ExternalAction) -> None:
        running = self.system.ports.workflow.running()
        if running:
            name = pick(running, action.selector)
            self._log(f"execution {name[-8:]} is aborted")
            self.system.ports.workflow.abort(name)

    def _port_outage(self, action: ExternalAction) -> None:
        start = self.system.clock.now()
        end = start + timedelta(seconds=60 + action.fraction * HOUR)
        self._log(f"{action.subject} does not answer until {end:%H:%M:%S}")
        self.system.injector.outages.append(Outage(action.subject, start, end))

    def _days_pass(self, action: ExternalAction) -> None:
        # Days in which repairs are repeated in vain cost as much time as many idle days.
        days = 1 + action.selector % (2 if self.system.repeats_repairs else 18)
        self._log(f"{days} days pass")
        self.system.pass_time(timedelta(days=days))


def _is_being_repaired(state: NodeState) -> bool:
    return state.status in {NodeStatus.DRAINING, NodeStatus.REPAIRING} and state.incarnation is not None


def _takes_effect(failure: ProviderFailure, action: ExternalAction) -> bool:
    uncertain = failure in {ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT}
    return uncertain and action.fraction < 0.5
