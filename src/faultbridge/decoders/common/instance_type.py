"""Adds the checks that need the instance type of the node: the number of GPUs and the rates of EFA devices."""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.decoders.common.efa_rate import add_efa_rate_check
from faultbridge.decoders.common.gpu_count import add_gpu_count_check
from faultbridge.domain.faults import Observation


def add_instance_type_checks(observations: Iterable[Observation], instance_type: str) -> tuple[Observation, ...]:
    """Return the observations with the results of the checks; unchanged for an unknown instance type."""
    return add_efa_rate_check(add_gpu_count_check(observations, instance_type), instance_type)
