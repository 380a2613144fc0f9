"""A fake of the orchestrator's node listing."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.nodes import Instance


class FakeNodeListing:
    """Implements `NodeListing` (fake): returns the instances that a test sets."""

    def __init__(self) -> None:
        self.instances: Mapping[str, Instance] = {}

    def list_instances(self, _config: ClusterConfig) -> Mapping[str, Instance]:
        return self.instances
