"""Customer mappings: translate a customer's own alert names and log texts into fault codes.

A mapping can also contain limits of counters. A version is named by the hash of its content and never changes. A
pointer in the table names the current version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field

from faultbridge.decode.data.counters import Thresholds, thresholds, thresholds_with
from faultbridge.model.errors import Misconfigured, UnknownName
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Put, Value
from faultbridge.record.rulebook import ItemReader

if TYPE_CHECKING:
    from faultbridge.record.ports.table import Clock, Table

MappingsByName = Mapping[str, Mapping[str, Value]]
"""Customer mappings, by the name of the packaged mapping that each one extends."""

NO_MAPPINGS: MappingsByName = {}


class MappingStore(Struct, frozen=True):
    """Publishes and reads versions of customer mappings."""

    table: Table
    clock: Clock

    def put(self, version: str, mappings: MappingsByName) -> None:
        """Store validated mappings, and make them the current version; `version` is their content hash."""
        now = self.clock.now()
        stored = items.item(
            keys.mapping(version), now, {"mappings": {name: dict(one) for name, one in mappings.items()}}
        )
        pointer = items.item(keys.CURRENT_MAPPING, now, {"version": version})
        self.table.transact([Put(stored), Put(pointer)])

    def current(self) -> tuple[str | None, MappingsByName]:
        """Return the current version and its mappings, or None and no mappings before the first `put`."""
        pointer = self.table.get(keys.CURRENT_MAPPING)
        if pointer is None:
            return None, NO_MAPPINGS
        version = str(pointer["version"])
        return version, self.read(version)

    def read(self, version: str) -> MappingsByName:
        """Return the mappings of a version; an unknown version raises Rejected `unknown_mapping`."""
        found = self.table.get(keys.mapping(version))
        if found is None:
            raise UnknownName("mapping", version)
        return _mappings(found)


class CustomerMappings(Struct, frozen=True):
    """Returns the customer's current mappings to decoders.

    A process reads a version from the table only once. `table` caches the pointer to the current version.
    """

    table: ItemReader
    _versions: dict[str, MappingsByName] = field(default_factory=dict)

    def current(self) -> MappingsByName:
        """Return the current mappings; the result is empty before the first `MappingStore.put`.

        Raises Misconfigured if the current version is not stored.
        """
        pointer = self.table.get(keys.CURRENT_MAPPING)
        if pointer is None:
            return NO_MAPPINGS
        version = str(pointer["version"])
        if version not in self._versions:
            found = self.table.get(keys.mapping(version))
            if found is None:
                raise Misconfigured(
                    f"the current mappings are not stored: {version}; run 'faultbridge mapping put FILE'"
                )
            self._versions[version] = _mappings(found)
        return self._versions[version]


class CustomerThresholds(Struct, frozen=True):
    """Returns counter thresholds: the packaged ones, changed by the customer's current mappings.

    A mapping can set the limit and the time window of a counter.
    """

    mappings: CustomerMappings

    def current(self) -> Thresholds:
        """Return the thresholds. If the current mappings are not stored, return the packaged thresholds."""
        try:
            return thresholds_with(self.mappings.current())
        except Misconfigured as error:
            log_cause("own_thresholds_not_read", reason="mappings_not_stored", error=str(error))
            return thresholds()


def _mappings(found: Item) -> MappingsByName:
    return cast("MappingsByName", found["mappings"])
