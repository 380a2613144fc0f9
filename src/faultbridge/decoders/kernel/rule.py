"""A rule for a kernel message: a required phrase, a pattern, and the fault that the message reports."""

from __future__ import annotations

import re

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import ComponentType

# The PCI address of a device, as the kernel prints it.
BDF = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A kernel message that reports a fault or the end of a fault.

    `pattern` is tried only on a message that contains the text `phrase`. `type` is the type of the component. `ends` is
    True if the message reports that the fault has ended. If the hardware corrected the error, the fault code is
    `corrected`. Otherwise, or if `corrected` is None, the fault code is `code`.
    """

    phrase: str
    pattern: re.Pattern[str]
    code: str
    type: ComponentType
    ends: bool = False
    corrected: str | None = None


def rule(
    phrase: str, pattern: str, code: str, kind: ComponentType, *, ends: bool = False, corrected: str | None = None
) -> Rule:
    """Return a `Rule` whose pattern is compiled from text.

    The pattern must match at the start of a message. `kind` is the type of the component. The other arguments are the
    fields of `Rule`.
    """
    return Rule(phrase, re.compile(pattern, re.DOTALL), code, kind, ends, corrected)
