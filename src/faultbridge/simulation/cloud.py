"""What the cloud does in a history: calls that fail, broken machines, executions that end; one method an act."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.ports import ProviderFailure, Restart, RestartState, Verdict, Verification
from faultbridge.simulation.acts import Act
from faultbridge.simulation.chaos import Outage
from faultbridge.simulation.journal import Kind
from faultbridge.simulation.scene import Scene
from faultbridge.simulation.view import View

HOUR = 3600.0
SHORT_OF_MACHINES = 2 * HOUR
_PROVIDER = (
    ProviderFailure.CAPACITY,
    ProviderFailure.THROTTLED,
    ProviderFailure.CONFLICT,
    ProviderFailure.TIMEOUT,
    ProviderFailure.AMBIGUOUS,
    ProviderFailure.PROVIDER_ERROR,
)
_ORCHESTRATOR = (ProviderFailure.THROTTLED, ProviderFailure.TIMEOUT, ProviderFailure.CONFLICT)


def pick(things: Any, number: int) -> Any:
    """Choose one of several by a number of any size."""
    return things[number % len(things)]


class Cloud:
    """Makes the acts of the cloud come true in a scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def _tell(self, text: str) -> None:
        self.scene.journal.note(Kind.ACT, text)

    def _provider(self, act: Act) -> None:
        failure = pick(_PROVIDER, act.which)
        effect = _has_effect(failure, act)
        self._tell(f"the provider's next call: {failure.value}{', with effect' if effect else ''}")
        port = self.scene.ports.launcher if self.scene.by_template and act.which % 2 else self.scene.ports.provider
        port.fail_next(failure, effect=effect)
        self.scene.ports.provider.blind = act.amount > 0.8  # noqa: PLR2004 - one time in five

    def _restarter(self, act: Act) -> None:
        failure = pick((*_PROVIDER, ProviderFailure.NOT_FOUND), act.which)
        self._tell(f"the next restart: {failure.value}")
        restarter = self.scene.ports.restarter
        restarter.fail_next(failure, effect=_has_effect(failure, act))
        restarter.blind = act.amount > 0.8  # noqa: PLR2004 - one time in five
        if act.which % 3 == 0:
            stuck = pick([*self.scene.fleet.instances], act.which)
            restarter.results[stuck] = Restart(RestartState.FAILED, "scripted")

    def _rival(self, act: Act) -> None:
        """Take a machine away that an attempt is at work on, before it is given up or verified."""
        found = [state for state in View(self.scene).nodes if _is_being_repaired(state)]
        if found:
            sitting = pick(found, act.which).incarnation.instance_id
            self._tell(f"a rival terminates {sitting}")
            self.scene.taken.add(sitting)
            self.scene.fleet.terminate(sitting)

    def _verifier(self, act: Act) -> None:
        verdict = Verdict.UNKNOWN if act.which % 2 else Verdict.FAILED
        instance = pick([*self.scene.fleet.instances], act.which)
        self._tell(f"the verification of {instance} will be: {verdict.value}")
        self.scene.ports.verifier.results[instance] = Verification(verdict, ("scripted",))

    def _orchestrator(self, act: Act) -> None:
        failure = pick(_ORCHESTRATOR, act.which)
        self._tell(f"the scheduler's next calls: {failure.value}")
        self.scene.ports.orchestrator.fail_next(*[failure] * (1 + act.which % 4))

    def _capacity(self, act: Act) -> None:
        spare = act.which % 2
        self._tell(f"{spare} machines are left")
        self.scene.fleet.restock(spare)
        if self.scene.by_template:
            # A case that asks again and again keeps every sweep busy: weeks of it would say no more than hours.
            self.scene.schedule.after(SHORT_OF_MACHINES, "cloud", lambda: self.scene.fleet.restock(None))

    def _lemon(self, _act: Act) -> None:
        self._tell("the next machine is broken on arrival")
        self.scene.broken_arrivals += 1

    def _busy(self, act: Act) -> None:
        node = f"node-{act.which % 4 + 1}"
        until = self.scene.clock.now() + timedelta(seconds=act.amount * HOUR)
        self._tell(f"work runs on {node} until {until:%H:%M}")
        self.scene.ports.orchestrator.busy_until[node] = until

    def _abort(self, act: Act) -> None:
        running = self.scene.ports.workflow.running()
        if running:
            name = pick(running, act.which)
            self._tell(f"execution {name[-8:]} is aborted")
            self.scene.ports.workflow.abort(name)

    def _outage(self, act: Act) -> None:
        start = self.scene.clock.now()
        end = start + timedelta(seconds=60 + act.amount * HOUR)
        self._tell(f"{act.what} does not answer until {end:%H:%M:%S}")
        self.scene.chaos.outages.append(Outage(act.what, start, end))

    def _days(self, act: Act) -> None:
        days = 1 + act.which % 18
        self._tell(f"{days} days pass")
        self.scene.pass_time(timedelta(days=days))


def _is_being_repaired(state: NodeState) -> bool:
    return state.status in {NodeStatus.DRAINING, NodeStatus.REPAIRING} and state.incarnation is not None


def _has_effect(failure: ProviderFailure, act: Act) -> bool:
    uncertain = failure in {ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT}
    return uncertain and act.amount < 0.5  # noqa: PLR2004 - every other one has its effect
