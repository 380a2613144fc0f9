"""Extension: another Python package with a function that builds an adapter, and what Faultbridge passes to it."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.ports.table import Clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What Faultbridge passes to the function that builds the adapter of an extension.

    The entry point of the extension names this function. The extension reads its own settings from the environment.
    `role` is the IAM role for a cluster in another AWS account, or None for a cluster in the account of the stack.
    """

    clock: Clock
    role: ProviderRole | None = None
