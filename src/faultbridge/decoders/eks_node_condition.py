"""`eks-node-condition`: conditions and events of the Amazon EKS node monitoring agent."""

from __future__ import annotations

from faultbridge.decoders.base import Decoder
from faultbridge.decoders.node_conditions import Reader, speaks_of_types

SOURCE = "eks-node-condition"


def recognise(body: bytes) -> bool:
    """Tell whether a condition type of the agent is named, or it reports an event."""
    return speaks_of_types(body, SOURCE) or (b"eks-node-monitoring-agent" in body and b"involvedObject" in body)


DECODER = Decoder(
    name=SOURCE,
    summary="conditions and events of the EKS node monitoring agent (status.conditions, or kubectl get events -o json)",
    example='[{"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", '
    '"lastTransitionTime": "2026-02-03T04:05:06Z"}]',
    recognise=recognise,
    decode=Reader(SOURCE, others=True).decode,
)
