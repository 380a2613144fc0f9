"""Silent instances: reads the status of a node without heartbeats from provider and orchestrator."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.failure_domains import failure_domains
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import FaultbridgeError
from faultbridge.ingest.missing_heartbeat import ProbedInstance
from faultbridge.log import log_cause
from faultbridge.ports import CheckResult, ClusterNode
from faultbridge.repair.attempt.step_tools import StepTools
from faultbridge.rules.rulebook import rules_of
from faultbridge.storage import items, keys

MAX_PROBED = 5
"""Maximum silent nodes of a cluster that one sweep probes."""

PAUSE = timedelta(minutes=10)
"""How long an orchestrator that did not answer is not called again."""


@dataclass(frozen=True, slots=True)
class ProbeInstance:
    """Probes the instance of one node that sends no heartbeat. What cannot be read is returned as unknown.

    If an open incident explains the missing heartbeat, the instance is not probed: many nodes then share one cause,
    which no single instance shows.
    """

    tools: StepTools
    _pauses: dict[str, datetime] = field(default_factory=dict)

    def __call__(self, state: NodeState) -> ProbedInstance:
        """Return what the provider and the orchestrator report about a node's instance.

        The result states whether the instance exists, the provider's status checks, and whether the orchestrator
        reports the node as ready. The status checks of an instance that is gone are not read.
        """
        config = rules_of(self.tools.rulebook, state.key.cluster).config
        instance_id = state.incarnation.instance_id if state.incarnation else None
        if instance_id is None:
            return ProbedInstance()
        try:
            if self._is_covered(state, config):
                return ProbedInstance()
        except FaultbridgeError as error:
            _log_unanswered(state, error)
            return ProbedInstance()
        probed = self._probe_instance(state, config, instance_id)
        return replace(probed, orchestrator=self._readiness(state, config))

    def _probe_instance(self, state: NodeState, config: ClusterConfig, instance_id: str) -> ProbedInstance:
        probed = ProbedInstance()
        try:
            provider = self.tools.compute(config).providers.get(config.provider)
            if provider is not None:
                probed = ProbedInstance(provider.probe(instance_id))
                if not probed.presence.is_gone:
                    probed = ProbedInstance(probed.presence, provider.checks(instance_id))
        except FaultbridgeError as error:
            _log_unanswered(state, error)
        return probed

    def _readiness(self, state: NodeState, config: ClusterConfig) -> CheckResult:
        """Return what the orchestrator reports about a node; UNKNOWN without an answer or an orchestrator.

        A call without an answer lasts up to 40 seconds, and a sweep has no time for a second such call. After a failed
        call, the orchestrator of the cluster is therefore not called again for ten minutes (`PAUSE`).
        """
        orchestrator, now = self.tools.orchestrators.get(config.orchestrator), self.tools.clock.now()
        if orchestrator is None or now < self._pauses.get(config.cluster, now):
            return CheckResult.UNKNOWN
        try:
            return orchestrator.readiness(ClusterNode.of(state, config))
        except FaultbridgeError as error:
            self._pauses[config.cluster] = now + PAUSE
            _log_unanswered(state, error)
            return CheckResult.UNKNOWN

    def _is_covered(self, state: NodeState, config: ClusterConfig) -> bool:
        """Return whether an open incident explains why the node sends no heartbeat."""
        key, placement = state.key, state.placement
        control = items.read_control(key.cluster, self.tools.table.get(keys.cluster_control(key.cluster)))
        domains = failure_domains(key.cluster, key.node, placement.domain, placement.domains, config.domains)
        return control.incident_of(key.node, domains, [Family.HEARTBEAT]) is not None


def _log_unanswered(state: NodeState, error: FaultbridgeError) -> None:
    log_cause("silent_instance_not_probed", reason=str(error), cluster=state.key.cluster, node=state.key.node)
