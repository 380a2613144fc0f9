"""List the modules that patch each emulator, in the order in which their patches are applied."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from faultbridge.local.gaps.patching import Gap

# The order matters where two patches replace the same name: the later patch wraps the earlier one.
EVENT_PLANE = (
    "lambda_errors",
    "lambda_workers",
    "event_delivery",
    "streams",
    "dynamodb_queries",
    "provisioned_settings",
    "stack_updates",
)
COMPUTE_PLANE = (
    "launches",
    "fleets",
    "auto_scaling",
    "systems_manager",
    "instance_topology",
    "capacity_reservations",
    "eks_endpoints",
    "hyperpod_clusters",
)


def gaps_of(modules: tuple[str, ...]) -> Iterator[Gap]:
    """Yield the gaps of the given modules, in the order in which their patches are applied."""
    for module in modules:
        yield from import_module(f"faultbridge.local.gaps.{module}").GAPS


def apply_all(modules: tuple[str, ...]) -> None:
    """Patch the emulator in this process with the patches of the given modules."""
    for gap in gaps_of(modules):
        gap.apply()
