"""Copies: frozen values with some fields changed, made an order of magnitude faster than by `dataclasses.replace`.

For the states that change at every step of a repair. Their classes have slots and no `__post_init__`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - the type checker checks the names of the fields
else:

    def replace(value: Any, /, **changes: Any) -> Any:  # noqa: ANN401 - a value of any dataclass
        """Return a copy of a frozen value with other fields. Raises AttributeError for a name that is no field."""
        kind = value.__class__
        read, twin = _access(kind)
        copied = twin(*read(value))
        for name, new in changes.items():
            setattr(copied, name, new)
        copied.__class__ = kind
        return copied


@cache
def _access(kind: type) -> tuple[Callable[[Any], tuple[Any, ...]], type]:
    """Return what reads all fields of a class at once, and a class of the same layout whose values are not frozen."""
    names = [one.name for one in fields(kind)]
    return attrgetter(*names), make_dataclass(kind.__name__, names, slots=True)
