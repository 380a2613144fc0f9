"""Load extensions: adapters that other installed distributions register under an entry-point group.

An extension is built on first use, so that a broken extension affects only the clusters that name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from faultbridge.model.errors import Misconfigured

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from faultbridge.record.ports.table import Surroundings

PREFIX = "faultbridge."
Part = TypeVar("Part")


class Parts(Mapping[str, Part], Generic[Part]):
    """The adapters (parts) of one kind by name: the built-in ones, then those of installed extensions.

    Extensions register under the entry-point group `faultbridge.KIND`. An extension cannot replace a built-in adapter.
    A look-up raises Misconfigured if the extension cannot be loaded.
    """

    def __init__(self, kind: str, protocol: type[Any], builtin: Mapping[str, Part], surroundings: Surroundings) -> None:
        """Store the built-in adapters, and the protocol and surroundings of the extensions."""
        self._group, self._protocol = f"{PREFIX}{kind}", protocol
        self._builtin, self._surroundings = builtin, surroundings
        self._loaded: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        """Return an adapter; raises KeyError without it, Misconfigured if its extension cannot be loaded."""
        if name in self._builtin:
            return self._builtin[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Return whether an adapter of this name is built in or installed; no extension is loaded."""
        return name in self._builtin or any(one.name == name for one in self._installed)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all adapters; no extension is loaded."""
        names = (one.name for one in self._installed)
        return iter(dict.fromkeys((*self._builtin, *sorted(names))))

    def __len__(self) -> int:
        """Return the number of adapters, built in and installed."""
        return len(list(iter(self)))

    @cached_property
    def _installed(self) -> tuple[EntryPoint, ...]:
        from importlib.metadata import entry_points  # a slow import, which only extensions need

        return tuple(entry_points(group=self._group))

    def _load(self, name: str) -> Part:
        found = [one for one in self._installed if one.name == name]
        if not found:
            raise KeyError(name)
        if len({one.value for one in found}) > 1:
            raise Misconfigured(f"{len(found)} extensions register {name!r} in {self._group}; uninstall all but one")
        try:
            part: Part = found[0].load()(self._surroundings)
        except Exception as error:
            raise Misconfigured(f"extension {name!r} in {self._group} cannot be loaded: {error}") from error
        methods = (one for one in vars(self._protocol) if not one.startswith("_"))
        missing = sorted(one for one in methods if not hasattr(part, one))
        if missing:
            raise Misconfigured(f"extension {name!r} in {self._group} lacks {', '.join(missing)}")
        return part
