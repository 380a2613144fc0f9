"""Whether an instance exists at its provider, and its status checks."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Presence(StrEnum):
    """The result of a probe of the provider: whether an instance exists.

    GONE: the provider shows that the instance was terminated. UNLISTED: the provider has no record of the instance. It
    was terminated long ago, or it is in another region or account.
    """

    ALIVE = "alive"
    GONE = "gone"
    UNLISTED = "unlisted"
    UNKNOWN = "unknown"

    @property
    def is_gone(self) -> bool:
        """Return whether the provider has no such instance, for a decision that terminates nothing."""
        return self in {Presence.GONE, Presence.UNLISTED}


class CheckResult(StrEnum):
    """The result of one status check of an instance. UNKNOWN means that there is no result."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class InstanceChecks(Struct, frozen=True):
    """The checks of an instance: its host (`system`), its OS (`instance`) and its SSM agent (`agent`)."""

    system: CheckResult = CheckResult.UNKNOWN
    instance: CheckResult = CheckResult.UNKNOWN
    agent: CheckResult = CheckResult.UNKNOWN
