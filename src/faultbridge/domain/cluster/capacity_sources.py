"""Capacity sources: the places where a successor may come from, asked in the order of the policy."""

from __future__ import annotations

from enum import StrEnum


class CapacitySource(StrEnum):
    """A place where a successor may come from.

    `own_reservation` is the capacity reservation (ODCR) of the old instance, `open_reservation` another one that
    accepts its type in its zone, `capacity_block` its capacity block, `training_plan` the plan of its HyperPod group.
    `on_demand` is the instance type that is launched first, `fallback_types` are the further ones of the registration.
    """

    SPARE_POOL = "spare_pool"
    OWN_RESERVATION = "own_reservation"
    OPEN_RESERVATION = "open_reservation"
    CAPACITY_BLOCK = "capacity_block"
    TRAINING_PLAN = "training_plan"
    ON_DEMAND = "on_demand"
    FALLBACK_TYPES = "fallback_types"


DEFAULT_SOURCES = (
    CapacitySource.SPARE_POOL,
    CapacitySource.OWN_RESERVATION,
    CapacitySource.CAPACITY_BLOCK,
    CapacitySource.TRAINING_PLAN,
    CapacitySource.ON_DEMAND,
    CapacitySource.FALLBACK_TYPES,
)
"""The order if the policy states none: open reservations, which other workloads may use, are not asked."""
