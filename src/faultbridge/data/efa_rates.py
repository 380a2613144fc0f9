"""Expected rates of EFA devices by instance type, in Gb/s; a customer can change, add or remove rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.data import efa_rates_by_instance_type
from faultbridge.errors import Misconfigured

EFA_RATES = "efa_rates"
"""The member of a customer's mappings with rates by instance type; `null` removes a packaged rate."""
_MAX_RATE = 100_000


def efa_rates_with(extensions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, int]:
    """Return the packaged rates of EFA devices, in Gb/s by instance type, with a customer's changes."""
    own = extensions.get(EFA_RATES)
    if not own:
        return efa_rates_by_instance_type()
    return {name: int(rate) for name, rate in {**efa_rates_by_instance_type(), **own}.items() if rate is not None}


def check_efa_rates(own: object) -> None:
    """Raise `Misconfigured` unless a customer's rates are valid, by instance type.

    A rate is an integer from 1 to 100,000 (Gb/s), or null, which removes a packaged rate.
    """
    if not isinstance(own, dict):
        raise Misconfigured(f"wrong type of {EFA_RATES}: {type(own).__name__}; expected a JSON object")
    for name, rate in own.items():
        is_rate = isinstance(rate, int) and not isinstance(rate, bool) and 0 < rate <= _MAX_RATE
        if rate is not None and not is_rate:
            raise Misconfigured(f"wrong value of {EFA_RATES}.{name}: {rate!r}; expected a rate in Gb/s, or null")
