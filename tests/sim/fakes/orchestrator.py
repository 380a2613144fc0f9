"""A fake of an orchestrator (Slurm or Kubernetes), which stores cordoned nodes and running jobs."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.ports.presence import CheckResult
from faultbridge.record.ports.table import Clock
from tests.sim.fakes.clock import ManualClock
from tests.sim.fakes.fleet import FakeFleet
from tests.sim.fakes.seam import Seam


class FakeOrchestrator:
    """Implements `Orchestrator` (fake); finds the instance of a node by its host names, as Slurm does.

    `cordoned` contains the names of the cordoned nodes, and `cordoned_instances` their instances. `discouraged`
    contains the nodes to which the scheduler prefers others. A test can change the answers:

    - Failures set with `fail_next` are returned before other answers, except those of `drains_refused`.
    - `unreachable_until`: until this time, calls time out.
    - `unknown_nodes`: the cordon and the uncordon of these nodes fail with `NOT_FOUND`.
    - `drains_refused`: a failure that drains return, and the time until which they return it.
    - `left_by`: the time until which a drain waits for programs without a device, by node name. A node is idle beside
      them.
    - `busy_until`: the time until which jobs run on a node, by node name or instance id.
    - `not_ready`: nodes that are not ready. A node whose instance is gone from the `fleet` is not ready either.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        applicable: bool = True,
        seam: Seam | None = None,
        fleet: FakeFleet | None = None,
    ) -> None:
        self.fleet = fleet
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.cordoned: set[str] = set()
        self.discouraged: set[str] = set()
        self.cordoned_instances: set[str | None] = set()
        self.unknown_nodes: set[str] = set()
        self.not_ready: set[str] = set()
        self.busy_until: dict[str, datetime] = {}
        self.left_by: dict[str, datetime] = {}
        self.unreachable_until: datetime | None = None
        self.drains_refused: tuple[ProviderFailure, datetime] | None = None
        self.failures: deque[ProviderFailure] = deque()
        self._applicable = applicable

    @property
    def applicable(self) -> bool:
        """Whether the cluster has an orchestrator, so that cordons and drains apply to it."""
        return self._applicable

    def fail_next(self, *failures: ProviderFailure) -> None:
        """Make the next calls fail, one failure per call, without effect."""
        self.failures.extend(failures)

    def refuse_drains(self, failure: ProviderFailure, until: datetime | None = None) -> None:
        """Make drains fail without effect until the time `until`, or forever if `until` is None."""
        self.drains_refused = failure, until or datetime.max.replace(tzinfo=UTC)

    def cordon(self, node: ClusterNode) -> CallResult:
        """Mark a node as unschedulable, so that it gets no new jobs."""
        with self.seam.around("orchestrator", "cordon", node.node):
            answer = self._answer(node)
            if answer.ok and self._applicable:
                self.discouraged.discard(node.node)
                self.cordoned.add(node.node)
                self.cordoned_instances.add(self._instance(node))
            return answer

    def discourage(self, node: ClusterNode) -> CallResult:
        """Make the scheduler prefer other nodes, unless the node is cordoned."""
        with self.seam.around("orchestrator", "discourage", node.node):
            answer = self._answer(node)
            if answer.ok and self._applicable and node.node not in self.cordoned:
                self.discouraged.add(node.node)
            return answer

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Make a cordoned node schedulable again."""
        with self.seam.around("orchestrator", "uncordon", node.node):
            answer = self._answer(node)
            if answer.ok:
                self.discouraged.discard(node.node)
                self.cordoned.discard(node.node)
                self.cordoned_instances.discard(self._instance(node))
            return answer

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Return TIMEOUT while jobs run on a node, else success; failures set by a test take precedence.

        The drain of a node in `unknown_nodes` succeeds, because no job runs there.
        """
        with self.seam.around("orchestrator", "drain", node.node):
            answer = self._answer(node)
            if answer.failure is ProviderFailure.NOT_FOUND and node.node in self.unknown_nodes:
                return CallResult(reason="not a node of the cluster: nothing runs there")
            if self.drains_refused is not None and self.clock.now() < self.drains_refused[1]:
                return CallResult(self.drains_refused[0], "refused by the API")
            if answer.ok and self.clock.now() < self.left_by.get(node.node, self.clock.now()):
                return CallResult(ProviderFailure.TIMEOUT, "programs without a device are leaving")
            return self._work(node, answer)

    def idle(self, node: ClusterNode) -> CallResult:
        """Return TIMEOUT while jobs run on a node, else success; failures set by a test take precedence."""
        with self.seam.around("orchestrator", "idle", node.node):
            answer = self._answer(node)
            if answer.failure is ProviderFailure.NOT_FOUND and node.node in self.unknown_nodes:
                return CallResult(reason="not a node of the cluster: nothing runs there")
            return self._work(node, answer)

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return PASSED if a node is ready, and FAILED if it is not.

        The result is UNKNOWN if the call fails, or if the cluster has no orchestrator. A timeout raises `Transient`.
        """
        with self.seam.around("orchestrator", "readiness", node.node):
            answer = self._answer(node)
            if answer.no_response:
                raise Transient(answer.reason)
            if not answer.ok or not self._applicable:
                return CheckResult.UNKNOWN
            instance = self._instance(node)
            gone = self.fleet is not None and instance is not None and not self.fleet.is_alive(instance)
            return CheckResult.FAILED if gone or node.node in self.not_ready else CheckResult.PASSED

    def _instance(self, node: ClusterNode) -> str | None:
        """Return the last added instance in `fleet` that has a host name of the node.

        If there is no such instance, the result is the node's registered instance, or None.
        """
        found = (self.fleet.instance_at(name) for name in node.host_names) if self.fleet else ()
        return next((one for one in found if one is not None), node.instance_id)

    def _work(self, node: ClusterNode, answer: CallResult) -> CallResult:
        """Return TIMEOUT while jobs run on a node; else `answer`, which is also the result of a failed call."""
        if answer.ok and self._applicable and self._busy(node):
            return CallResult(ProviderFailure.TIMEOUT, "work is still running")
        return answer

    def _busy(self, node: ClusterNode) -> bool:
        found = (self.busy_until.get(one) for one in (node.node, self._instance(node)) if one is not None)
        return any(until is not None and self.clock.now() < until for until in found)

    def _answer(self, node: ClusterNode) -> CallResult:
        """Return the answer to a call about a node: success, or a failure that a test has set.

        Failures set with `fail_next` come first, then timeouts before `unreachable_until`, then `NOT_FOUND` for a node
        in `unknown_nodes`.
        """
        if self.failures:
            failure = self.failures.popleft()
            return CallResult(failure, "scripted", no_response=failure is ProviderFailure.TIMEOUT)
        if self.unreachable_until is not None and self.clock.now() < self.unreachable_until:
            return CallResult(ProviderFailure.TIMEOUT, "no answer", no_response=True)
        if self._applicable and node.node in self.unknown_nodes:
            return CallResult(ProviderFailure.NOT_FOUND, "not a node of the cluster")
        return CallResult(reason="" if self._applicable else "not applicable: the cluster has no orchestrator")
