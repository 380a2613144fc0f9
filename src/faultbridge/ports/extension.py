"""Extension: the data that Faultbridge passes to an adapter from another Python package."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.ports.table import Clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What Faultbridge passes to the function with which an extension builds its adapter.

    An extension is another Python package, whose entry point names this function. The extension reads its own settings
    from the environment. `role` is the IAM role for a cluster in another AWS account, or None for a cluster in the
    account of the stack.
    """

    clock: Clock
    role: ProviderRole | None = None
