"""Copies: creates and copies values of frozen dataclasses several times faster than the classes do.

A frozen dataclass sets each field through `object.__setattr__`, which is slow. This module creates the value as an
instance of a second class, which has the same slots but is not frozen. It then sets `__class__` to the first class. A
class without slots, with a base class or with `__post_init__` gets no second class; its values are created as usual.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - the type checker checks the names of the fields
else:

    def replace(value: Any, /, **changes: Any) -> Any:  # noqa: ANN401 - a value of any dataclass
        """Return a copy of a frozen value with some fields changed. An unknown field name raises an error."""
        kind = value.__class__
        copy = _copier(kind)
        if copy is None:
            return dataclasses.replace(value, **changes)
        copied = copy(value)
        for name, new in changes.items():
            setattr(copied, name, new)
        copied.__class__ = kind
        return copied


def maker(kind: Callable[..., T]) -> Callable[[Mapping[str, Any]], T]:
    """Return a function that creates values of a dataclass or named tuple from a map of its fields.

    The function raises TypeError, as the class does, for a missing required field or a name that is not a field.
    """
    copy = _copier(kind)
    if copy is None:
        return lambda values: kind(**values)
    parts: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]  # a dataclass
    empty = _twin(kind)()
    for one in parts:
        setattr(empty, one.name, None if one.default is MISSING else one.default)
    factories = [(one.name, one.default_factory) for one in parts if one.default_factory is not MISSING]
    names = frozenset(one.name for one in parts)
    required = frozenset(one.name for one in parts if one.default is one.default_factory is MISSING)

    def make(values: Mapping[str, Any]) -> T:
        if not required <= values.keys() <= names:
            return kind(**values)  # it raises the error
        made = copy(empty)
        for name, value in values.items():
            setattr(made, name, value)
        for name, create in factories:
            if name not in values:
                setattr(made, name, create())
        made.__class__ = kind
        return made  # type: ignore[no-any-return]  # now of the class

    return make


@cache
def _copier(kind: Any) -> Callable[[Any], Any] | None:  # noqa: ANN401 - any class
    """Return a function that copies a value of `kind` into a second class whose fields can be set.

    The second class has the same slots as `kind`. The result is None if there is no such class (`_twin`).
    """
    twin = _twin(kind)
    if twin is None:
        return None
    lines = [f" copied.{name} = value.{name}" for name in twin.__slots__]
    scope: dict[str, Any] = {"new": object.__new__, "twin": twin}
    source = "\n".join(("def copy(value):", " copied = new(twin)", *lines, " return copied"))
    exec(source, scope)  # noqa: S102 - as `dataclasses` does: a loop over the names takes more than twice the time
    copy: Callable[[Any], Any] = scope["copy"]
    return copy


@cache
def _twin(kind: Any) -> Any:  # noqa: ANN401 - any class, and the one created for it
    """Return a class that has the same slots as the frozen dataclass `kind`, but is not frozen, or None.

    A value is created in this class, and then becomes a `kind`. The result is None if `kind` has no slots, has a base
    class, or has a method `__post_init__`.
    """
    if kind.__base__ is not object or "__slots__" not in vars(kind) or hasattr(kind, "__post_init__"):
        return None
    return type(kind.__name__, (), {"__slots__": tuple(one.name for one in fields(kind))})
