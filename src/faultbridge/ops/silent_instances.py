"""Silent instances: whether the instance of a node without heartbeats still exists, by its provider."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.nodes import NodeState
from faultbridge.errors import FaultbridgeError
from faultbridge.log import log_cause
from faultbridge.ports import Presence
from faultbridge.repair.attempt.step_tools import StepTools
from faultbridge.rules.rulebook import rules_of

MAX_PROBED = 5
"""More silent nodes than this are not probed: their common cause is an incident, not their instances."""


@dataclass(frozen=True, slots=True)
class ProbeInstance:
    """Probes the instance of one node; a probe that fails leaves its presence unknown."""

    tools: StepTools

    def __call__(self, state: NodeState) -> Presence:
        """Return the presence of the instance that backs a node."""
        config = rules_of(self.tools.rulebook, state.key.cluster).config
        instance_id = state.incarnation.instance_id if state.incarnation else None
        try:
            provider = self.tools.compute(config).providers.get(config.provider)
            return provider.probe(instance_id) if provider and instance_id else Presence.UNKNOWN
        except FaultbridgeError as error:
            log_cause("silent_instance_not_probed", reason=str(error), cluster=config.cluster, node=state.key.node)
            return Presence.UNKNOWN
