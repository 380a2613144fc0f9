"""Silent instances: what the provider reports about the instance of a node without heartbeats."""

from __future__ import annotations

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.failure_domains import failure_domains
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import FaultbridgeError
from faultbridge.ingest.missing_heartbeat import ProbedInstance
from faultbridge.log import log_cause
from faultbridge.ports import Presence
from faultbridge.repair.attempt.step_tools import StepTools
from faultbridge.rules.rulebook import rules_of
from faultbridge.storage import items, keys

MAX_PROBED = 5
"""Maximum silent nodes of a cluster that one sweep probes."""


@dataclass(frozen=True, slots=True)
class ProbeInstance:
    """Probes the instance of one node; what cannot be read stays unknown.

    A node whose missing heartbeat an open incident covers is not probed: its instance does not show the shared cause.
    """

    tools: StepTools

    def __call__(self, state: NodeState) -> ProbedInstance:
        """Return whether the instance of a node exists and, unless it is gone, the provider's checks of it."""
        config = rules_of(self.tools.rulebook, state.key.cluster).config
        instance_id = state.incarnation.instance_id if state.incarnation else None
        probed = ProbedInstance()
        try:
            provider = self.tools.compute(config).providers.get(config.provider)
            if provider is not None and instance_id is not None and not self._is_covered(state, config):
                probed = ProbedInstance(provider.probe(instance_id))
                if probed.presence is not Presence.GONE:
                    probed = ProbedInstance(probed.presence, provider.checks(instance_id))
        except FaultbridgeError as error:
            log_cause("silent_instance_not_probed", reason=str(error), cluster=config.cluster, node=state.key.node)
        return probed

    def _is_covered(self, state: NodeState, config: ClusterConfig) -> bool:
        """Return whether an open incident explains why the node sends no heartbeat."""
        key, placement = state.key, state.placement
        control = items.read_control(key.cluster, self.tools.table.get(keys.cluster_control(key.cluster)))
        domains = failure_domains(key.cluster, key.node, placement.domain, placement.domains, config.domains)
        return control.incident_of(key.node, domains, [Family.HEARTBEAT]) is not None
