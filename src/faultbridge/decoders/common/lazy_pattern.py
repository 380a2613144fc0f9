"""Lazy patterns: regular expressions that are compiled at first use.

A record needs only a few of a decoder's patterns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:

    def lazy_pattern(text: AnyStr, flags: re.RegexFlag | int = 0) -> re.Pattern[AnyStr]:
        """Return a pattern that is compiled at its first use."""

else:

    class lazy_pattern:  # noqa: N801 - used as the function that it is for the type checker
        """A pattern that is compiled when one of its attributes is first used."""

        def __init__(self, text: AnyStr, flags: re.RegexFlag | int = 0) -> None:
            self._arguments = text, flags

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of a pattern
            """Return an attribute of the compiled pattern, and store it for later uses of this object."""
            if name.startswith("_"):
                raise AttributeError(name)
            found = getattr(re.compile(*self._arguments), name)  # `re` caches the compiled pattern
            setattr(self, name, found)
            return found
