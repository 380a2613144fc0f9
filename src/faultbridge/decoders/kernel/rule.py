"""A rule for a kernel message: a required phrase, a pattern, and the fault that it means."""

from __future__ import annotations

import re

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import ComponentType

# The PCI address of a device, as the kernel prints it.
BDF = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kernel message that reports a fault.

    `ends` marks a message that the fault has ended. `corrected` is the code of the same error when it was corrected.
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
    """Return a rule with its pattern compiled; the pattern matches at the start of a message."""
    return Rule(phrase, re.compile(pattern, re.DOTALL), code, kind, ends, corrected)
