"""Values: a changed copy of an immutable value of any class."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:  # noqa: ANN401 - the values of the fields
    """Return a copy of a value with some fields changed; raises TypeError for a name that is not a field.

    The value is a msgspec structure, a named tuple or a dataclass. Code that runs on nodes has no msgspec, so this
    module does not import it.
    """
    copy = getattr(value, "__replace__", None) or getattr(value, "_replace", None)
    copied: T = copy(**changes) if copy else dataclasses.replace(value, **changes)  # type: ignore[type-var]  # a dataclass
    return copied
