"""Reconciles the spare pool: each call runs the next step of each spare, such as a launch.

A call may be repeated or interrupted, and calls may run at the same time. Until a launch for a spare succeeds or fails,
all calls use the same token. An instance is terminated only while its spare is `ending`: no case can then take it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from msgspec import Struct

from faultbridge.decode.frames.instance_type import missing_gpus
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import Spare, SpareStatus, is_taken
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import Misconfigured, Transient, Unverifiable
from faultbridge.model.log import log_cause
from faultbridge.model.storage import keys
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import LaunchedInstance, Launcher, LaunchRequest, Verdict, Verification, Verifier
from faultbridge.record.ports.installation import ComputeAccess
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import StepTools, adapter_named
from faultbridge.repair.spares.pool import SparePool
from faultbridge.repair.steps.verify_instance import joined_findings
from faultbridge.repair.successor.launch import SAME_TOKEN

RELAUNCH_DELAY = timedelta(minutes=10)
"""How long a spare stays empty after a failed launch, or after its instance was discarded or is gone."""

REFUSED_DELAY = timedelta(days=1)
"""How long a spare stays empty after the verifier refused its instance; `RELAUNCH_DELAY` if the verifier changes."""

LAUNCH_TIMEOUT = timedelta(minutes=30)
"""How long a launched instance may take until it runs and is cordoned."""

POOL_SHRUNK = "the pool was made smaller"


def reconcile_spares(tools: StepTools, cluster: str) -> None:
    """Run the next step of each spare, such as a launch, if Faultbridge repairs the cluster.

    A spare that another call changed is left to the next call. Errors are raised after the last spare: Misconfigured
    if an operator must act, else Transient.
    """
    failures: list[tuple[Spare, Misconfigured | Transient]] = []
    for reconciler in _reconcilers(tools, cluster):
        try:
            reconciler.step()
        except (Misconfigured, Transient) as error:
            failures.append((reconciler.spare, error))
    if failures:
        text = "; ".join(f"spare {spare.number}: {error}" for spare, error in failures)
        raise Misconfigured(text) if any(isinstance(error, Misconfigured) for _, error in failures) else Transient(text)


def drop_taken_spares(tools: StepTools, cluster: str) -> list[str]:
    """Remove the instances from the pool whose tag names a case, as after a restore; return their ids."""
    return [str(one.spare.instance_id) for one in _reconcilers(tools, cluster) if one.drop_if_taken()]


def _reconcilers(tools: StepTools, cluster: str) -> Iterator[_SpareReconciler]:
    rules = rules_of(tools.rulebook, cluster)
    config, timeout = rules.config, rules.policy.limits.verify_deadline
    compute, pool = tools.compute(config), SparePool(tools.table, tools.clock)
    launcher = compute.launchers.get(config.provider)
    if launcher is None or not config.repairs:
        return
    spares = {spare.number: spare for spare in pool.spares(cluster)}
    for number in range(1, config.spares + 1):
        if number not in spares and config.spare_group:
            spares[number] = Spare(cluster, number, config.spare_group)
    for spare in spares.values():
        yield _SpareReconciler(pool, tools, config, compute, launcher, timeout, spare)


class _SpareReconciler(Struct, frozen=True):
    """Runs the next step of one spare: launch, verify, check or terminate its instance."""

    pool: SparePool
    tools: StepTools
    config: ClusterConfig
    compute: ComputeAccess
    launcher: Launcher
    verify_timeout: timedelta
    spare: Spare

    @property
    def surplus(self) -> bool:
        return self.spare.number > self.config.spares or self.spare.group != self.config.spare_group

    @property
    def launch_request(self) -> LaunchRequest:
        spare = self.spare
        return LaunchRequest(self.config, spare.group, spare.owner, spare.owner, None, self.config.instance_types)

    @property
    def verifier(self) -> Verifier:
        return adapter_named(self.compute.verifiers, "verifier", self.config.verifier)

    def step(self) -> None:
        if self.drop_if_taken():
            return
        steps: Mapping[SpareStatus, Callable[[], object]] = {
            SpareStatus.EMPTY: self._fill,
            SpareStatus.LAUNCHING: self._launch,
            SpareStatus.VERIFYING: self._check_verification,
            SpareStatus.READY: self._check_ready,
            SpareStatus.TAKEN: self._check_taken,
            SpareStatus.ENDING: self._terminate,
        }
        steps[self.spare.status]()

    def drop_if_taken(self) -> bool:
        """Remove the instance from the pool, and keep it, if its tag names a case that did not take this spare."""
        case = _case_of_instance(self.launcher, self.launch_request, self.spare)
        if case is not None:
            reason = f"the tag of the instance names case {case}"
            self._log("spare_dropped", reason, instance_id=self.spare.instance_id)
            self._empty(reason)
        return case is not None

    def _fill(self) -> None:
        spare = self.spare
        delay = REFUSED_DELAY if spare.refused_by == self.config.verifier else RELAUNCH_DELAY
        if self.surplus:
            self.pool.drop(spare)
        elif not spare.reason or self._lasted(delay):
            self.pool.change(spare, status=SpareStatus.LAUNCHING, round=spare.round + 1, reason="", refused_by=None)

    def _launch(self) -> None:
        found = self.launcher.launched(self.launch_request)
        if not found:
            answer = self.launcher.launch(self.launch_request)
            if not answer.ok and answer.failure not in SAME_TOKEN:
                self._log("spare_launch_failed", answer.reason)
                self._empty(answer.reason)
            elif answer.ok and self._lasted(LAUNCH_TIMEOUT):
                self._empty("the launched instance is not listed with the tag of the pool")
            return
        candidate = found[0]
        if self.surplus:
            self._discard(candidate.instance_id, POOL_SHRUNK)
        elif candidate.running and self._cordon(candidate):
            self._verify(candidate)
        elif self.tools.clock.now() - candidate.launched_at >= LAUNCH_TIMEOUT:
            self._discard(candidate.instance_id, "the instance does not run, or cannot be cordoned")

    def _cordon(self, candidate: LaunchedInstance) -> bool:
        orchestrator = adapter_named(self.tools.orchestrators, "orchestrator", self.config.orchestrator)
        return not orchestrator.applicable or orchestrator.cordon(ClusterNode.of_spare(candidate, self.config)).ok

    def _verify(self, candidate: LaunchedInstance) -> None:
        instance, kind = candidate.instance_id, candidate.instance_type
        operation = self.start_verification(instance)
        self.pool.change(
            self.spare, status=SpareStatus.VERIFYING, instance_id=instance, instance_type=kind, operation=operation
        )

    def start_verification(self, instance: str) -> str:
        try:
            return self.verifier.start(instance, f"{self.spare.owner}-{self.spare.verifications}")
        except Unverifiable as error:
            self._discard(instance, f"refused by {self.config.verifier}: {error}", self.config.verifier)
            raise

    def _check_verification(self) -> None:
        spare = self.spare
        instance = str(spare.instance_id)
        found = self.verifier.status(instance, str(spare.operation))
        failure = _failure_of(found, spare)
        if failure or self.surplus or self._lasted(self.verify_timeout):
            self._discard(instance, failure or (POOL_SHRUNK if self.surplus else "the instance could not be verified"))
        elif found.verdict is Verdict.PASSED:
            passed = {"verified_at": self.tools.clock.now(), "verifications": spare.verifications + 1}
            self.pool.change(spare, status=SpareStatus.READY, **passed)
        elif found.verdict in {Verdict.UNKNOWN, Verdict.OCCUPIED}:
            self._verify_again(instance)

    def _verify_again(self, instance: str) -> None:
        """Start another verification with a new token, which stays the same until the start succeeds."""
        verifications = self.spare.verifications + 1
        operation = replace(self, spare=replace(self.spare, verifications=verifications)).start_verification(instance)
        self.pool.change(self.spare, status=SpareStatus.VERIFYING, operation=operation, verifications=verifications)

    def _check_ready(self) -> None:
        spare = self.spare
        if self.surplus:
            self._discard(str(spare.instance_id), POOL_SHRUNK)
        elif self._is_gone():
            self._log("spare_gone", "another controller terminated the instance")
            self._empty("the instance is gone")
        elif not spare.serves(spare.group, self.tools.clock.now()):
            self._verify_again(str(spare.instance_id))

    def _check_taken(self) -> None:
        spare = self.spare
        if self.pool.table.get(keys.claim(str(spare.instance_id))) is not None or self._is_gone():
            self._empty("")
        elif self._has_ended(str(spare.case)):
            self.pool.give_back(spare.cluster, str(spare.instance_id), self.launcher)

    def _terminate(self) -> None:
        if self.launcher.terminate(str(self.spare.instance_id)).ok or self._is_gone():
            self._empty(self.spare.reason, self.spare.refused_by)

    def _discard(self, instance: str, reason: str, refused_by: str | None = None) -> None:
        """Set the status `ending`, so that no case can take the instance. The next call terminates it."""
        self._log("spare_discarded", reason, instance_id=instance)
        self.pool.change(
            self.spare, status=SpareStatus.ENDING, instance_id=instance, reason=reason, refused_by=refused_by
        )

    def _empty(self, reason: str, refused_by: str | None = None) -> None:
        cleared = {"instance_id": None, "instance_type": None, "operation": None, "verified_at": None, "case": None}
        self.pool.change(
            self.spare, status=SpareStatus.EMPTY, verifications=0, reason=reason, refused_by=refused_by, **cleared
        )

    def _is_gone(self) -> bool:
        provider = adapter_named(self.compute.providers, "provider", self.config.provider)
        return provider.probe(str(self.spare.instance_id)).is_gone

    def _has_ended(self, case: str) -> bool:
        found = self.pool.table.get(keys.case(case))
        return found is not None and not CaseStatus(str(found["status"])).live

    def _lasted(self, span: timedelta) -> bool:
        since = self.spare.since
        return since is not None and self.tools.clock.now() - since >= span

    def _log(self, decision: str, reason: str, **ids: object) -> None:
        cluster, number = self.spare.cluster, self.spare.number
        log_cause(decision, reason=reason, level=logging.WARNING, cluster=cluster, spare=number, **ids)


def _case_of_instance(launcher: Launcher, request: LaunchRequest, spare: Spare) -> str | None:
    """Return the id of the case in the tag of a spare's instance, or None if this case took the spare.

    The result is None too if the tag names the pool, or the provider does not list the instance. After a restore from a
    backup, an instance with such a tag may serve a node. Diagnostics, a termination or another case would stop its
    jobs.
    """
    if spare.instance_id is None or spare.status is SpareStatus.LAUNCHING:
        return None
    listed = launcher.launched(replace(request, spare=spare.instance_id))
    tags = (one.case for one in listed if one.instance_id == spare.instance_id)
    return next((tag for tag in tags if is_taken(tag, spare.case)), None)


def _failure_of(found: Verification, spare: Spare) -> str:
    """Return why an ended verification of a spare failed; empty if it did not fail."""
    if found.verdict is Verdict.FAILED:
        return joined_findings(found.findings) or "the verification failed"
    return (missing_gpus(found.gpus, spare.instance_type) or "") if found.verdict is Verdict.PASSED else ""
