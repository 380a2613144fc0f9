"""GPUs of nodes: the devices of nodes that kept their instance and boot since a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from faultbridge.domain.faults import Component
from faultbridge.domain.nodes import NodeKey
from faultbridge.ledger.append import Append


def gpus_of(append: Append, cluster: str, nodes: Iterable[str], until: datetime) -> Mapping[str, tuple[Component, ...]]:
    """Return the devices, such as GPUs, of each node that kept its instance and boot since `until`.

    Other nodes are not included, because their recorded devices may not be those of that time.
    """
    wanted = [NodeKey(cluster, node) for node in sorted(set(nodes))]
    return {
        state.key.node: state.devices
        for state in (append.read_many(wanted) if wanted else ())
        if state.incarnation is not None and state.incarnation.since <= until
    }
