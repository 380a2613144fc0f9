"""Tend: bring each place of a cluster's pool one step further, so that a verified machine waits in it.

Every call may come twice, die in the midst or meet another: a launch is fenced by the token of its round, and a machine
is ended only after its place says so, when no case can take it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from faultbridge.decoders.common.gpu_count import missing_gpus
from faultbridge.domain.clusters import ClusterConfig, Mode
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.spares import Spare, SpareStatus
from faultbridge.ports import Candidate, ClusterNode, Launcher, LaunchRequest, Presence, Verdict, Verification, Verifier
from faultbridge.repair.attempt.compute_access import ComputeAccess
from faultbridge.repair.attempt.step_context import Tools
from faultbridge.repair.spares.pool import Pool
from faultbridge.repair.successor.launch import SAME_TOKEN
from faultbridge.rules.rulebook import rules_of
from faultbridge.storage import keys

AGAIN = timedelta(minutes=10)
"""How long a place stays empty after a launch that came to nothing."""

LAUNCHED_WITHIN = timedelta(minutes=30)
"""How long a machine may take until it runs and is kept from work."""

SMALLER = "the pool is smaller now"


@dataclass(frozen=True, slots=True)
class ReconcileSpares:
    """Tends the pool of one cluster; a place that somebody else changed meanwhile is left to the next call."""

    pool: Pool
    tools: Tools

    def __call__(self, cluster: str) -> None:
        """Launch, verify, refill and end what the size of the pool asks for, a step a place."""
        rules = rules_of(self.tools.rulebook, cluster)
        config = rules.config
        reach: ComputeAccess = self.tools.elsewhere(config.provider_role) if config.provider_role else self.tools
        launcher = reach.launchers.get(config.provider)
        if launcher is None or config.mode is not Mode.ACT or not config.acts:
            return
        for spare in self._places(config):
            _Place(self.pool, self.tools, config, reach, launcher, rules.policy.limits.verify_deadline, spare).step()

    def _places(self, config: ClusterConfig) -> list[Spare]:
        """Return the places that there are and that are still to be made."""
        found = {spare.number: spare for spare in self.pool.places(config.cluster)}
        for number in range(1, config.spares + 1):
            if number not in found and config.spare_group:
                found[number] = Spare(config.cluster, number, config.spare_group)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class _Place:
    """One place at one moment, and the step that is due."""

    pool: Pool
    tools: Tools
    config: ClusterConfig
    reach: ComputeAccess
    launcher: Launcher
    patience: timedelta
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
        return self.reach.verifiers[self.config.verifier]

    def step(self) -> None:
        """Do what the status asks for."""
        steps: Mapping[SpareStatus, Callable[[], object]] = {
            SpareStatus.EMPTY: self._begin,
            SpareStatus.LAUNCHING: self._launch,
            SpareStatus.VERIFYING: self._look,
            SpareStatus.READY: self._keep,
            SpareStatus.TAKEN: self._taken,
            SpareStatus.ENDING: self._end,
        }
        steps[self.spare.status]()

    def _begin(self) -> None:
        spare = self.spare
        if self.surplus:
            self.pool.drop(spare)
        elif not spare.reason or self._lasts(AGAIN):
            self.pool.change(spare, status=SpareStatus.LAUNCHING, round=spare.round + 1, reason="")

    def _launch(self) -> None:
        found = self.launcher.launched(self.launch_request)
        if not found:
            answer = self.launcher.launch(self.launch_request)
            if not answer.ok and answer.failure not in SAME_TOKEN:
                self._empty(answer.reason)
            return
        candidate = found[0]
        if self.surplus:
            self._give_up(candidate.instance_id, SMALLER)
        elif candidate.running and self._kept_off(candidate.instance_id):
            self._verify(candidate)
        elif self.tools.clock.now() - candidate.launched_at >= LAUNCHED_WITHIN:
            self._give_up(candidate.instance_id, "it does not run, or work is not kept off it")

    def _kept_off(self, instance: str) -> bool:
        """Keep work off a machine that joins its cluster like any other."""
        orchestrator = self.tools.orchestrators[self.config.orchestrator]
        return not orchestrator.applicable or orchestrator.cordon(ClusterNode(self.config, instance, instance)).ok

    def _verify(self, candidate: Candidate) -> None:
        instance, kind = candidate.instance_id, candidate.instance_type
        operation = self.verifier.start(instance, f"{self.spare.owner}-{self.spare.looks}")
        self.pool.change(
            self.spare, status=SpareStatus.VERIFYING, instance_id=instance, instance_type=kind, operation=operation
        )

    def _look(self) -> None:
        spare = self.spare
        instance = str(spare.instance_id)
        found = self.verifier.status(instance, str(spare.operation))
        wrong = _wrong(found, spare)
        if wrong or self.surplus or self._lasts(self.patience):
            self._give_up(instance, wrong or "it could not be verified")
        elif found.verdict is Verdict.PASSED:
            self.pool.change(spare, status=SpareStatus.READY, verified_at=self.tools.clock.now(), looks=spare.looks + 1)
        elif found.verdict is Verdict.UNKNOWN:
            self._again(instance)

    def _again(self, instance: str) -> None:
        """Ask anew, under a token of its own."""
        changed = self.pool.change(self.spare, looks=self.spare.looks + 1)
        if changed is not None:
            token = f"{changed.owner}-{changed.looks}"
            operation = self.verifier.start(instance, token)
            self.pool.change(changed, status=SpareStatus.VERIFYING, operation=operation)

    def _keep(self) -> None:
        spare = self.spare
        if self.surplus:
            self._give_up(str(spare.instance_id), SMALLER)
        elif self._gone():
            self._empty("it is gone")
        elif not spare.serves(spare.group, self.tools.clock.now()):
            self._again(str(spare.instance_id))

    def _taken(self) -> None:
        """Fill the place again once the machine sits in a node; take back what a case took and did not need."""
        spare = self.spare
        if self.pool.table.get(keys.claim(str(spare.instance_id))) is not None or self._gone():
            self._empty("")
        elif self._is_over(str(spare.case)):
            self.pool.change(spare, status=SpareStatus.READY, case=None)

    def _end(self) -> None:
        if self.launcher.terminate(str(self.spare.instance_id)).ok or self._gone():
            self._empty(self.spare.reason)

    def _give_up(self, instance: str, reason: str) -> None:
        """Say first that nobody may take it; the next call ends it."""
        self.pool.change(self.spare, status=SpareStatus.ENDING, instance_id=instance, reason=reason)

    def _empty(self, reason: str) -> None:
        nobody = {"instance_id": None, "instance_type": None, "operation": None, "verified_at": None, "case": None}
        self.pool.change(self.spare, status=SpareStatus.EMPTY, looks=0, reason=reason, **nobody)

    def _gone(self) -> bool:
        provider = self.reach.providers[self.config.provider]
        return provider.probe(str(self.spare.instance_id)) is Presence.GONE

    def _is_over(self, case: str) -> bool:
        found = self.pool.table.get(keys.case(case))
        return found is not None and not CaseStatus(str(found["status"])).live

    def _lasts(self, span: timedelta) -> bool:
        since = self.spare.since
        return since is not None and self.tools.clock.now() - since >= span


def _wrong(found: Verification, spare: Spare) -> str:
    """Say what is wrong with a machine by its verification; empty where nothing is, or nobody can tell yet."""
    if found.verdict is Verdict.FAILED:
        return "; ".join(found.findings) or "its verification failed"
    return (missing_gpus(found.gpus, spare.instance_type) or "") if found.verdict is Verdict.PASSED else ""
