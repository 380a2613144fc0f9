"""`kubernetes-node`: a node as `kubectl get node -o json`, `describe` or `get nodes` shows it.

Grammar: JSON of a node or a list, `describe`'s sections, or a table with columns for conditions and HyperPod's labels
(`kubernetes_objects`). Times: a condition's `lastTransitionTime`, with a zone. Units: none. Errors:
`Rejected(no_framing)` where no condition is there. Source: Kubernetes' API, kubectl and captures.
"""

from __future__ import annotations

from faultbridge.decoders.base import Decoder
from faultbridge.decoders.node_conditions import KUBERNETES, Reader, speaks_of_types

OTHERS = ("eks-node-condition", "node-problem-detector")


def recognize(body: bytes) -> bool:
    """Tell whether it is a node, a table of nodes, or a list of the kubelet's own conditions."""
    if b'"kind"' in body and b'"Node"' in body and b'"involvedObject"' not in body:
        return True
    if b"LastTransitionTime" in body or (b"NAME " in body and b" ROLES " in body):
        return True
    return speaks_of_types(body, KUBERNETES) and not any(speaks_of_types(body, other) for other in OTHERS)


DECODER = Decoder(
    name=KUBERNETES,
    summary="kubectl get node -o json (also -L node-health-status, describe): readiness, pressure, agents' conditions",
    example='{"kind": "Node", "metadata": {"name": "ip-10-0-0-7"}, "status": {"conditions": [{"type": "Ready", '
    '"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-02-03T04:05:06Z"}]}}',
    recognize=recognize,
    decode=Reader(KUBERNETES).decode,
)
