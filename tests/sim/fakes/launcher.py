"""A fake of instance launches from a launch template."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, LaunchedInstance, LaunchRequest
from tests.sim.fakes.fleet import FailingFake, FakeFleet, as_launched_instance
from tests.sim.fakes.seam import Seam

LISTING_LAG = timedelta(hours=2)
"""An instance that was launched longer ago is always listed."""


class FakeLauncher(FailingFake):
    """Implements `Launcher` (fake) on a `FakeFleet`: each token launches at most one instance.

    `launch` returns failures set with `fail_next` before real answers. Instances of a type in `types_without_capacity`
    cannot launch. Before `hidden_until`, `launched` returns no instance that was launched within `LISTING_LAG`, as an
    eventually consistent API may.
    """

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None) -> None:
        super().__init__(fleet, seam=seam)
        self.types_without_capacity: set[str] = set()
        self.hidden_until: datetime | None = None
        self.terminated: list[str] = []
        self.launch_calls: list[tuple[str, str]] = []
        self._answers: dict[str, CallResult] = {}
        self._requested_types: dict[str, tuple[str, ...]] = {}

    def launched(self, launch_request: LaunchRequest) -> tuple[LaunchedInstance, ...]:
        """Return the live instances that were launched for a case, and the case's spare, oldest first.

        The instance to replace (`launch_request.instead_of`) is left out.
        """
        with self.seam.around("launcher", "launched", launch_request):
            now = self.fleet.clock.now()
            hides = self.hidden_until is not None and now < self.hidden_until
            found = [
                as_launched_instance(one, now)
                for one in self.fleet.instances.values()
                if (one.case == launch_request.case or one.instance_id == launch_request.spare)
                and one.alive
                and one.instance_id != launch_request.instead_of
                and not (hides and one.launched_at > now - LISTING_LAG)
            ]
            return tuple(sorted(found, key=lambda one: (one.launched_at, one.instance_id)))

    def launched_in(self, cluster: ClusterConfig) -> tuple[LaunchedInstance, ...]:
        """Return the live instances that were launched for a case; the fake does not distinguish clusters."""
        with self.seam.around("launcher", "launched_in", cluster.cluster):
            now = self.fleet.clock.now()
            found = [one for one in self.fleet.instances.values() if one.case is not None and one.alive]
            return tuple(as_launched_instance(one, now) for one in found)

    def launch(self, launch_request: LaunchRequest) -> CallResult:
        """Launch one instance; the same token launches no second instance.

        A repeated token with other instance types returns AMBIGUOUS. A repeated token whose instance was terminated
        returns CONFLICT. If no requested type has capacity, the result is CAPACITY.
        """
        with self.seam.around("launcher", "launch", launch_request):
            self.launch_calls.append((launch_request.case, launch_request.token))
            types = launch_request.instance_types
            if self._requested_types.setdefault(launch_request.token, types) != types:
                return CallResult(ProviderFailure.AMBIGUOUS, "IdempotentParameterMismatch")
            script = self._next_failure()
            if script is not None and not script.effect:
                return self._scripted(launch_request, script.failure)
            answer = self._launch(launch_request)
            return CallResult(script.failure, "scripted") if script else self._conflict_if_terminated(answer)

    def assign(self, instance_id: str, case: str) -> CallResult:
        """Tag an instance with the case that uses it."""
        with self.seam.around("launcher", "assign", (instance_id, case)):
            self.fleet.instances[instance_id] = replace(self.fleet.instances[instance_id], case=case)
            return CallResult()

    def terminate(self, instance_id: str) -> CallResult:
        """Terminate a launched instance, and record it in `terminated`."""
        with self.seam.around("launcher", "terminate", instance_id):
            self.terminated.append(instance_id)
            self.fleet.terminate(instance_id)
            return CallResult()

    def _scripted(self, launch_request: LaunchRequest, failure: ProviderFailure) -> CallResult:
        """Return the failure that a test has set for a call.

        A permanent failure becomes the answer of later calls with the same token. If the token already has an answer,
        this answer is returned instead of the permanent failure.
        """
        answer = CallResult(failure, "scripted")
        retriable = failure in {ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT, ProviderFailure.THROTTLED}
        return answer if retriable else self._answers.setdefault(launch_request.token, answer)

    def _launch(self, launch_request: LaunchRequest) -> CallResult:
        if launch_request.token not in self._answers:
            self._answers[launch_request.token] = self._launch_first_time(launch_request)
        return self._answers[launch_request.token]

    def _launch_first_time(self, launch_request: LaunchRequest) -> CallResult:
        types = launch_request.instance_types or (self.fleet.instance_type,)
        available = next((one for one in types if one not in self.types_without_capacity), None)
        if available is None or self.fleet.capacity_left == 0:
            return CallResult(ProviderFailure.CAPACITY, "; ".join(f"{one}: no capacity" for one in types))
        self.fleet.capacity_left = None if self.fleet.capacity_left is None else self.fleet.capacity_left - 1
        at = self.fleet.clock.now() + self.fleet.launch_delay
        name = self.fleet.launch(launch_request.group, at=at)
        launched = replace(self.fleet.instances[name], case=launch_request.case, instance_type=available)
        self.fleet.instances[name] = launched
        return CallResult(reason=f"{name} was launched", operation=name)

    def _conflict_if_terminated(self, answer: CallResult) -> CallResult:
        launched = self.fleet.instances.get(answer.operation or "")
        if launched is None or launched.alive:
            return answer
        return CallResult(
            ProviderFailure.CONFLICT, f"{launched.instance_id} was terminated before it served", answer.operation
        )
