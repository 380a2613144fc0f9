"""What an extension gets: the surroundings in which a part of another distribution is built."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.ports.table import Clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The argument of the function behind an entry point.

    A part reads its own settings from the environment. `role` is the IAM role of a cluster in another AWS account.
    """

    clock: Clock
    role: ProviderRole | None = None
