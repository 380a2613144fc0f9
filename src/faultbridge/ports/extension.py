"""Extension: what Faultbridge passes to a function of another Python package that builds an adapter."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.ports.table import Clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What Faultbridge passes to the function that an extension's entry point names.

    An extension reads its own settings from the environment. `role` is the IAM role of a cluster in another AWS
    account, or None for the account of the stack.
    """

    clock: Clock
    role: ProviderRole | None = None
