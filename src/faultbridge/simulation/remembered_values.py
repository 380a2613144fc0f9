"""Remembered values: decode and encode each large value of a simulation run only once.

Both the stored and the domain values never change, so the results of a run are the same, in less time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from faultbridge.domain.cases import Case
from faultbridge.domain.cluster.breakers import Breaker
from faultbridge.domain.cluster.incidents import Hold, Incident
from faultbridge.domain.cluster.spares import Spare
from faultbridge.domain.cluster.state import ClusterState
from faultbridge.domain.conditions import Condition, Tombstone
from faultbridge.domain.faults import Component
from faultbridge.domain.nodes import NodeState, Placement
from faultbridge.pager.open_pages import OpenPage
from faultbridge.pipeline.correlate.chance import OnsetHistory
from faultbridge.simulation.fakes.stored_values import StoredMapping, stored
from faultbridge.storage.codec import wrap_codec, wrap_packing
from faultbridge.storage.writes import Value

MAX_REMEMBERED = 50_000
"""How many encoded values are remembered; after that all are forgotten."""

MAX_PACKED = 2_000
"""How many packed values are remembered, each with its text; after that all are forgotten."""


@cache
def remember_values() -> None:
    """Remember decoded and encoded values in this process."""
    of_nodes = Component, Condition, Tombstone, Placement, Case, NodeState
    of_clusters = Breaker, Hold, Incident, Spare, ClusterState, OnsetHistory, OpenPage
    wrap_codec((*of_nodes, *of_clusters), _decode_once, _encode_once)
    packed = PackedValues()
    wrap_packing(packed.pack_once, packed.unpack_once)


def _decode_once(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def load(value: Any) -> Any:
        if type(value) is not StoredMapping:
            return decode(value)
        if value.decoded is None or value.decoded[0] is not decode:
            value.decoded = decode, decode(value)
        return value.decoded[1]

    return load


def _encode_once(encode: Callable[[Any], Value]) -> Callable[[Any], Value]:
    remembered: dict[int, tuple[Any, Value]] = {}

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
    """Caches the mapping of each packed text, and the packed text of each mapping."""

    def __init__(self) -> None:
        self._mappings: dict[str, StoredMapping] = {}
        self._texts: dict[int, tuple[StoredMapping, str]] = {}

    def pack_once(self, pack: Callable[[object], str]) -> Callable[[object], str]:
        """Return a function that packs each stored mapping once."""

        def once(value: object) -> str:
            if type(value) is not StoredMapping:
                return pack(value)
            known = self._texts.get(id(value))
            return known[1] if known else self._remember(value, pack(value))

        return once

    def unpack_once(self, unpack: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
        """Return a function that unpacks each text once, so that its value is also decoded only once."""

        def once(text: str) -> dict[str, Any]:
            if text not in self._mappings:
                self._remember(StoredMapping(unpack(text)), text)
            return self._mappings[text]

        return once

    def _remember(self, mapping: StoredMapping, text: str) -> str:
        if len(self._mappings) >= MAX_PACKED:
            self._mappings.clear()
            self._texts.clear()
        self._mappings[text] = mapping
        self._texts[id(mapping)] = mapping, text
        return text
