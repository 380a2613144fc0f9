"""Launches in memory."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import datetime

from faultbridge.ports import CallResult, Candidate, LaunchRequest, ProviderFailure
from faultbridge.simulation.fakes.fleet import Failure, FakeFleet, as_candidate
from faultbridge.simulation.fakes.seams import Seam


class FakeLauncher:
    """A Launcher (fake) over a fleet: what a token came to, it comes to for ever; scripted failures come first.

    `dry` has the instance types that there is no capacity for; until `hidden_until` nobody is told what was launched.
    """

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None) -> None:
        self.fleet = fleet
        self.seam = seam or Seam()
        self.failures: deque[Failure] = deque()
        self.dry: set[str] = set()
        self.hidden_until: datetime | None = None
        self.ended: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self._answers: dict[str, CallResult] = {}

    def fail_next(self, failure: ProviderFailure, *, effect: bool = False) -> None:
        """Let the next launch fail in this way."""
        self.failures.append(Failure(failure, effect))

    def launched(self, launch_request: LaunchRequest) -> tuple[Candidate, ...]:
        """List what was launched for the case and lives."""
        with self.seam.around("launcher", "launched", launch_request):
            now = self.fleet.clock.now()
            if self.hidden_until is not None and now < self.hidden_until:
                return ()
            found = [
                as_candidate(one, now)
                for one in self.fleet.instances.values()
                if (one.case == launch_request.case or one.instance_id == launch_request.spare)
                and one.alive
                and one.instance_id != launch_request.instead_of
            ]
            return tuple(sorted(found, key=lambda one: (one.launched_at, one.instance_id)))

    def launch(self, launch_request: LaunchRequest) -> CallResult:
        """Launch an instance, once a token."""
        with self.seam.around("launcher", "launch", launch_request):
            self.asked.append((launch_request.case, launch_request.token))
            script = self.failures.popleft() if self.failures else None
            if script is not None and not script.effect:
                return self._scripted(launch_request, script.failure)
            answer = self._launch(launch_request)
            return CallResult(script.failure, "scripted") if script else self._unless_gone(answer)

    def assign(self, instance_id: str, case: str) -> CallResult:
        """Mark a machine with the case that took it."""
        with self.seam.around("launcher", "assign", (instance_id, case)):
            self.fleet.instances[instance_id] = replace(self.fleet.instances[instance_id], case=case)
            return CallResult()

    def terminate(self, instance_id: str) -> CallResult:
        """End a machine that sits in no node."""
        with self.seam.around("launcher", "terminate", instance_id):
            self.ended.append(instance_id)
            self.fleet.terminate(instance_id)
            return CallResult()

    def _scripted(self, launch_request: LaunchRequest, failure: ProviderFailure) -> CallResult:
        """CallResult for good where the failure is one for good."""
        answer = CallResult(failure, "scripted")
        open_still = failure in {ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT, ProviderFailure.THROTTLED}
        return answer if open_still else self._answers.setdefault(launch_request.token, answer)

    def _launch(self, launch_request: LaunchRequest) -> CallResult:
        if launch_request.token not in self._answers:
            self._answers[launch_request.token] = self._begin(launch_request)
        return self._answers[launch_request.token]

    def _begin(self, launch_request: LaunchRequest) -> CallResult:
        types = launch_request.instance_types or (self.fleet.instance_type,)
        free = next((one for one in types if one not in self.dry), None)
        if free is None or self.fleet.spare == 0:
            return CallResult(ProviderFailure.CAPACITY, "; ".join(f"{one}: no capacity" for one in types))
        self.fleet.spare = None if self.fleet.spare is None else self.fleet.spare - 1
        at = self.fleet.clock.now() + self.fleet.launch_delay
        name = self.fleet.launch(launch_request.group, at=at)
        launched = replace(self.fleet.instances[name], case=launch_request.case, instance_type=free)
        self.fleet.instances[name] = launched
        return CallResult(reason=f"{name} was launched", operation=name)

    def _unless_gone(self, answer: CallResult) -> CallResult:
        launched = self.fleet.instances.get(answer.operation or "")
        if launched is None or launched.alive:
            return answer
        return CallResult(ProviderFailure.CONFLICT, f"{launched.instance_id} ended before it served", answer.operation)
