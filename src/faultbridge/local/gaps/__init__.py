"""What the emulators lack, one module a gap: what AWS does, what the emulator does, what is done about it.

Each module of a gap has three functions. `names()` lists the private names of the emulator that it replaces or
calls; `is_open()` tells whether the unpatched emulator still has the gap; `apply()` mends it in this process.
The names belong to exactly pinned versions; a test asserts that all exist and that every gap is still open.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

EVENT_PLANE = (
    "callback_failures",
    "failed_updates",
    "lambda_error_names",
    "log_lines",
    "poller_pace",
    "query_cost",
    "queue_redrive",
    "schedule_pace",
    "sqs_batch_size",
    "stateful_updates",
    "stream_batches",
    "stream_partial_failures",
    "subscription_redrive",
    "table_settings",
    "worker_packages",
)
COMPUTE_PLANE = (
    "capacity",
    "client_tokens",
    "command_output",
    "command_targets",
    "fleet_launches",
    "gone_instances",
    "instance_topology",
    "kubernetes_endpoints",
    "launches",
    "managed_instances",
    "scaling_activities",
)


class Gap(Protocol):
    """The functions of a gap's module."""

    def names(self) -> tuple[str, ...]:
        """Return the private names of the emulator that the module replaces or calls, as `names.resolve` reads them."""

    def is_open(self) -> bool:
        """Whether the emulator, unpatched, still lacks this."""

    def apply(self) -> None:
        """Mend it in this process."""


def load(name: str) -> Gap:
    """Return the gap of that name; importing it imports its emulator."""
    return cast("Gap", import_module(f"{__name__}.{name}"))


def apply_all(gaps: tuple[str, ...]) -> None:
    """Mend them all, in the order of their names."""
    for name in gaps:
        load(name).apply()
