"""Caches what a warm Lambda function has read of a cluster, for a limited time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.ports import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Value:
    at: datetime
    version: object
    value: Any


@dataclass(slots=True)
class Kept:
    """A cache of data about clusters. A value is used until it reaches a given age.

    A name such as `roster` identifies the kind of data. The cache has at most one value for each cluster and name.
    """

    clock: Clock
    _values: dict[tuple[str, str], _Value] = field(default_factory=dict)

    def read(
        self, name: str, config: ClusterConfig, age: timedelta, read: Callable[[ClusterConfig], T], version: object = ""
    ) -> T:
        """Return the cached value with this name for a cluster, or call `read` and cache the result.

        The cached value is used if it is at most `age` old and was cached with an equal `version`. `version` is a value
        that changes when the cached value is no longer correct.
        """
        now, key = self.clock.now(), (name, config.cluster)
        kept = self._values.get(key)
        if kept is None or kept.version != version or now - kept.at > age:
            kept = self._values[key] = _Value(now, version, read(config))
        value: T = kept.value
        return value

    def forget(self, *names: str) -> None:
        """Remove the cached values with these names; without names, remove all values."""
        self._values = {key: value for key, value in self._values.items() if names and key[0] not in names}
