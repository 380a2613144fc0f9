"""`node-problem-detector`: its conditions (true is a problem) and events, those of GKE, AKS and HyperPod included.

Grammar: `status.conditions` as JSON, kubectl's YAML or table, or `kubectl get events -o json` (`node_conditions`);
which condition and reason means what is the mapping `conditions`. Times: a condition's `lastTransitionTime`, an
event's own; both have a zone. Units: none. Errors: `Rejected(no_framing)` where none of its conditions is there.
Source: node-problem-detector's rules, GKE, AKS and HyperPod captures.
"""

from __future__ import annotations

from faultbridge.decoders.base import Decoder
from faultbridge.decoders.node_conditions import Reader, speaks_of_types

SOURCE = "node-problem-detector"
_EVENT_SOURCES = (b"kernel-monitor", b"health-checker", b"system-log-monitor")


def recognize(body: bytes) -> bool:
    """Tell whether a condition type of the detector is named and none of the EKS agent, or it reports an event."""
    if speaks_of_types(body, "eks-node-condition"):
        return False
    return speaks_of_types(body, SOURCE) or (b"involvedObject" in body and any(one in body for one in _EVENT_SOURCES))


DECODER = Decoder(
    name=SOURCE,
    summary="node-problem-detector: status.conditions (JSON or kubectl's YAML), or kubectl get events -o json",
    example='- type: KernelDeadlock\n  status: "True"\n  reason: DockerHung\n  message: task docker:20 blocked\n'
    '  lastTransitionTime: "2026-02-03T04:05:06Z"\n',
    recognize=recognize,
    decode=Reader(SOURCE, others=True).decode,
)
