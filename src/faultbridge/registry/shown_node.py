"""Shown node: a node as a JSON document, with the reason why no repair of it starts."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.no_repair import no_repair
from faultbridge.registry.documents import Document, node_document


def shown_node_document(state: NodeState, config: ClusterConfig, now: datetime) -> Document:
    """Return a node as a JSON document with the field `no_repair`.

    The field states why no repair starts and what would change that. It is None if the node has no active condition,
    has a live case, or is not in service.
    """
    found = no_repair(state, config, now)
    return {**node_document(state), "no_repair": asdict(found) if found else None}
