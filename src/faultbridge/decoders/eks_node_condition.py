"""`eks-node-condition`: conditions and events of the Amazon EKS node monitoring agent.

Grammar: `status.conditions` as JSON, kubectl's YAML or table, or `kubectl get events -o json` (`node_conditions`);
which condition and reason means what is the mapping `conditions`. Times: a condition's `lastTransitionTime`, an
event's own; both have a zone. Units: none. Errors: `Rejected(no_framing)` where none of its conditions is there.
Source: eks-node-monitoring-agent's catalogue of reasons, Amazon EKS's documentation.
"""

from __future__ import annotations

from faultbridge.decoders.base import Decoder
from faultbridge.decoders.node_conditions import Reader, speaks_of_types

SOURCE = "eks-node-condition"


def recognize(body: bytes) -> bool:
    """Tell whether a condition type of the agent is named, or it reports an event."""
    return speaks_of_types(body, SOURCE) or (b"eks-node-monitoring-agent" in body and b"involvedObject" in body)


DECODER = Decoder(
    name=SOURCE,
    summary="conditions and events of the EKS node monitoring agent (status.conditions, or kubectl get events -o json)",
    example='[{"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", '
    '"lastTransitionTime": "2026-02-03T04:05:06Z"}]',
    recognize=recognize,
    decode=Reader(SOURCE, others=True).decode,
)
