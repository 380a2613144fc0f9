"""A Roll that says what a test tells it."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.registry.instances import Called


class FakeRoll:
    """A Roll (fake) that says what a test put into it."""

    def __init__(self) -> None:
        self.called: dict[str, Called] = {}

    def call(self, _config: ClusterConfig) -> Mapping[str, Called]:
        return self.called
