"""Read text parameters without pydantic, whose import takes longer than most offline commands.

Typer converts every value with pydantic, even text that needs no conversion. This module replaces the private function
of Typer that creates the conversion of a parameter. The replacement returns a value unchanged if it already has the
type of the parameter. Typer still converts all other values. If a version of Typer lacks the function, nothing is
replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import typer.core

_NAME = "build_runtime_param"
"""The private function of Typer that is replaced. A test fails if a new version of Typer renames it."""


@dataclass(frozen=True, slots=True)
class PlainParameter:
    """Converts the values of one command line parameter, with Typer's conversion only where it is needed.

    `descriptor` is Typer's description of the parameter. `convert` is the replaced function of Typer, which creates
    Typer's conversion from the descriptor. `coerce` calls `convert` only for a value that needs a conversion.
    """

    descriptor: Any
    convert: Callable[[Any], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - as in Typer
        """Return the value in the type of the parameter.

        A value that already has the type is returned, and Typer converts any other value. Typer also checks all paths
        and files. None stays None, or becomes `()` if the parameter takes several values.
        """
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        given = self.descriptor
        if not (given.is_path or given.is_file or given.parameter_info.parser):
            if given.annotation == list[str] and type(value) in {list, tuple} and all(map(_is_text, value)):
                return list(value)
            if self._has_type(value):
                return value
        return self.convert(self.descriptor).coerce(value, param=param, ctx=ctx)

    def _has_type(self, value: object) -> bool:
        kind = self.descriptor.annotation
        return type(value) is kind and (kind in {str, bool} or issubclass(kind, Enum))


def use_plain_parameters() -> None:
    """Replace Typer's conversion of parameters with `PlainParameter`; repeated calls change nothing."""
    convert = getattr(typer.core, _NAME, None)
    if convert is None or getattr(convert, "is_plain", False):
        return

    def build(descriptor: Any) -> Any:  # noqa: ANN401 - as in Typer
        return PlainParameter(descriptor, convert)

    build.is_plain = True  # type: ignore[attr-defined]  # marks the replacement
    setattr(typer.core, _NAME, build)


def _is_text(value: object) -> bool:
    return type(value) is str
