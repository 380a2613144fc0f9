"""Extension: what Faultbridge passes to the function that builds an adapter from another Python package."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.ports.table import Clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The argument of the function that an extension's entry point names.

    An extension reads its own settings from the environment. `role` is the IAM role of a cluster in another AWS
    account; None for the stack's own account.
    """

    clock: Clock
    role: ProviderRole | None = None
