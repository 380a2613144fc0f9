"""Capacity sources: where capacity for a successor instance comes from, in the policy's order."""

from __future__ import annotations

from enum import StrEnum


class CapacitySource(StrEnum):
    """A source of EC2 capacity for a successor, the instance that replaces a faulty one.

    - `spare_pool`: a spare, which is a verified instance that waits to become a successor.
    - `own_reservation`: the capacity reservation (ODCR) of the old instance.
    - `open_reservation`: another reservation, for the type and the zone of the old instance.
    - `capacity_block`: the capacity block of the old instance.
    - `training_plan`: the training plan of the old instance's HyperPod group.
    - `on_demand`: on-demand capacity for the preferred instance type of the successor.
    - `fallback_types`: the further types in the cluster's registration with as many GPUs as the old instance.
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
"""The order if the policy states none. Open reservations are left out, because other workloads may use them."""
