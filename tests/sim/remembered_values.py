"""Caches decoded and encoded values, so that a simulation rarely decodes or encodes a value again.

Neither the stored values nor the domain values change. The results of a run are therefore the same with and without the
caches. They are also the same if another run empties the caches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from faultbridge.decide.correlate.shared_causes import OnsetHistory
from faultbridge.model.cases import Case
from faultbridge.model.cluster.incidents import Hold, Incident
from faultbridge.model.cluster.state import Breaker, ClusterState, Control, Spare
from faultbridge.model.conditions import Condition, Tombstone
from faultbridge.model.faults import Component
from faultbridge.model.nodes import NodeState, Placement
from faultbridge.model.storage.codec import wrap_codec, wrap_packing
from faultbridge.model.storage.writes import Packed, Value
from faultbridge.serve.pager.open_pages import OpenPage
from tests.sim.fakes.stored_values import StoredMapping, stored

MAX_REMEMBERED = 50_000
"""Maximum encoded values of one type in the cache; a full cache is emptied."""

MAX_PACKED = 2_000
"""Maximum packed values in the cache, each with its bytes; a full cache is emptied."""


def remember_values() -> None:
    """Turn on the caches of this process, and empty them, because values of earlier runs only use memory."""
    for empty in _caches():
        empty()


@cache
def _caches() -> list[Callable[[], None]]:
    """Turn on the caches at the first call; every call returns the functions that empty the caches."""
    of_nodes = Component, Condition, Tombstone, Placement, Case, NodeState
    of_clusters = Breaker, Hold, Incident, Spare, ClusterState, Control, OnsetHistory, OpenPage
    empty_all: list[Callable[[], None]] = []
    wrap_codec((*of_nodes, *of_clusters), _decode_once, partial(_encode_once, empty_all.append))
    packed = PackedValues()
    wrap_packing(packed.pack_once, packed.unpack_once)
    return [*empty_all, packed.clear]


def _decode_once(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def load(value: Any) -> Any:
        if type(value) is not StoredMapping:
            return decode(value)
        if value.decoded is None or value.decoded[0] is not decode:
            value.decoded = decode, decode(value)
        return value.decoded[1]

    return load


def _encode_once(
    add_cache: Callable[[Callable[[], None]], None], encode: Callable[[Any], Value]
) -> Callable[[Any], Value]:
    remembered: dict[int, tuple[Any, Value]] = {}
    add_cache(remembered.clear)

    def dump(value: Any) -> Value:
        known = remembered.get(id(value))
        if known is not None:
            return known[1]
        if len(remembered) >= MAX_REMEMBERED:
            remembered.clear()
        encoded = stored(encode(value))
        remembered[id(value)] = value, encoded  # the reference to the value keeps its id unique
        return encoded

    return dump


class PackedValues:
    """Caches the mapping of each packed value, and the packed value of each mapping.

    A packed value is the compressed form of a mapping in a table item.
    """

    def __init__(self) -> None:
        self._mappings: dict[Packed, StoredMapping] = {}
        self._packed: dict[int, tuple[StoredMapping, Packed]] = {}

    def pack_once(self, pack: Callable[[object], Packed]) -> Callable[[object], Packed]:
        """Return a function like `pack` that caches the packed value of each `StoredMapping`."""

        def once(value: object) -> Packed:
            if type(value) is not StoredMapping:
                return pack(value)
            known = self._packed.get(id(value))
            return known[1] if known else self._remember(value, pack(value))

        return once

    def unpack_once(self, unpack: Callable[[Value], dict[str, Any]]) -> Callable[[Value], dict[str, Any]]:
        """Return a function like `unpack` that caches the mapping of each packed value."""

        def once(packed: Value) -> dict[str, Any]:
            if not isinstance(packed, Packed):  # of an earlier version; packed again, it becomes bytes
                return unpack(packed)
            if packed not in self._mappings:
                self._remember(StoredMapping(unpack(packed)), packed)
            return self._mappings[packed]

        return once

    def clear(self) -> None:
        """Empty the caches."""
        self._mappings.clear()
        self._packed.clear()

    def _remember(self, mapping: StoredMapping, packed: Packed) -> Packed:
        if len(self._mappings) >= MAX_PACKED:
            self.clear()
        self._mappings[packed] = mapping
        self._packed[id(mapping)] = mapping, packed
        return packed
