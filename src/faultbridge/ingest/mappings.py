"""Mappings: a customer's own words for faults, immutable under the hash of their content, and which of them hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faultbridge.errors import Misconfigured, Rejected
from faultbridge.ports import Clock, Table
from faultbridge.rules.rulebook import ItemReader
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put

Words = Mapping[str, Mapping[str, Any]]
NO_WORDS: Words = {}


@dataclass(frozen=True, slots=True)
class Mappings:
    """Puts and shows mappings; a version never changes, so putting one twice is putting it once."""

    table: Table
    clock: Clock

    def put(self, version: str, words: Words) -> None:
        """Let words, which were found good, hold from now on under the version that their content gives them."""
        now = self.clock.now()
        kept = items.item(keys.mapping(version), now, {"words": dict(words)})
        pointer = items.item(keys.CURRENT_MAPPING, now, {"version": version})
        self.table.transact([Put(kept), Put(pointer)])

    def current(self) -> tuple[str | None, Words]:
        """Return the words that hold and their version; nothing while nobody put any."""
        pointer = self.table.get(keys.CURRENT_MAPPING)
        if pointer is None:
            return None, NO_WORDS
        version = str(pointer["version"])
        return version, self.words(version)

    def words(self, version: str) -> Words:
        """Return one version's words; `unknown_mapping` when it is not kept."""
        found = self.table.get(keys.mapping(version))
        if found is None:
            raise Rejected("unknown_mapping", f"there is no mapping {version}")
        return _words(found)


@dataclass(frozen=True, slots=True)
class OwnWords:
    """Gives decoders the words that hold; a version is read once, which one holds whenever `table` forgets it."""

    table: ItemReader
    _known: dict[str, Words] = field(default_factory=dict)

    def __call__(self) -> Words:
        """Return the words that hold now; `Misconfigured` when they are named and not kept."""
        pointer = self.table.get(keys.CURRENT_MAPPING)
        if pointer is None:
            return NO_WORDS
        version = str(pointer["version"])
        if version not in self._known:
            found = self.table.get(keys.mapping(version))
            if found is None:
                raise Misconfigured(
                    f"mapping {version} is named but not stored (put it with 'faultbridge mapping put')"
                )
            self._known[version] = _words(found)
        return self._known[version]


def _words(found: Mapping[str, Any]) -> Words:
    words: Words = found["words"]
    return words
