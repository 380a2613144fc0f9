"""Thresholds: how far each counter may increase before the increase is a fault.

A customer can replace the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from faultbridge.decode.data import efa_rates_by_instance_type, packaged_json, table
from faultbridge.model.errors import Misconfigured
from faultbridge.model.values import replace

if TYPE_CHECKING:
    from faultbridge.model.findings import Detector

THRESHOLDS = "thresholds"
"""The member of a customer's mappings with the customer's own limits, by source and counter."""
_OVERRIDABLE = ("limit", "seconds")
_MAX_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of one counter: an increase above `limit` is a fault with the code `code`.

    - `seconds`: `limit` applies to each period of this length, so that twice the time allows twice the increase. If it
      is None, `limit` applies to the increase between two samples, whatever the time between them.
    - `bits`: the width of a counter that stops at its maximum; None for any other counter
    - `remote`: whether a healthy port increases the counter when the other end of the link fails
    - `says`: what other tools state about the counter, by the name of the tool
    """

    counter: str
    code: str
    limit: int
    unit: str
    seconds: int | None = None
    bits: int | None = None
    remote: bool = False
    says: Mapping[str, str] = field(default_factory=dict)

    @property
    def full(self) -> int | None:
        """Return the maximum at which the counter stops, or None if it does not stop."""
        return None if self.bits is None else 2**self.bits - 1


@cache
def thresholds() -> Mapping[tuple[str, str], Threshold]:
    """Return every packaged threshold, by source and counter."""
    found: dict[tuple[str, str], Threshold] = {}
    for row in packaged_json("thresholds/counters.json"):
        fields = {name: value for name, value in row.items() if name not in {"sources", "counters"}}
        found |= {
            (source, counter): Threshold(counter, **fields) for source in row["sources"] for counter in row["counters"]
        }
    return found


Thresholds = Mapping[tuple[str, str], Threshold]
"""Thresholds by source and counter."""


def thresholds_with(extensions: Mapping[str, Mapping[str, Any]]) -> Thresholds:
    """Return the packaged thresholds with the limits and time windows that a customer's mappings set."""
    own = extensions.get(THRESHOLDS)
    if not own:
        return thresholds()
    stated = {(source, name): dict(values) for source, counters in own.items() for name, values in counters.items()}
    return {key: replace(one, **stated[key]) if key in stated else one for key, one in thresholds().items()}


def check_thresholds(own: object) -> None:
    """Raise `Misconfigured` unless a customer's limits are valid and belong to packaged thresholds."""
    for source, counters in _object(own, THRESHOLDS).items():
        allowed = counters_of(source)
        if not allowed:
            sources = sorted({known for known, _ in thresholds()})
            raise Misconfigured(f"no counter of {source!r} has a threshold; sources with one are {', '.join(sources)}")
        for counter, values in _object(counters, f"{THRESHOLDS}.{source}").items():
            if counter not in allowed:
                raise Misconfigured(f"no threshold of {source} {counter!r}; allowed are {', '.join(sorted(allowed))}")
            _check_values(f"{THRESHOLDS}.{source}.{counter}", values)


def _check_values(path: str, values: object) -> None:
    for name, value in _object(values, path).items():
        if name not in _OVERRIDABLE:
            raise Misconfigured(f"unknown member of {path}: {name!r}; allowed are {', '.join(_OVERRIDABLE)}")
        least = 1 if name == "seconds" else 0
        if name == "seconds" and value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MAX_LIMIT:
            raise Misconfigured(f"wrong value of {path}.{name}: {value!r}; expected an integer of at least {least}")


def _object(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Misconfigured(f"wrong type of {path}: {type(value).__name__}; expected a JSON object")
    return value


@cache
def counters_of(source: str) -> frozenset[str]:
    """Return the counters of a source that have a packaged threshold."""
    return frozenset(counter for counter_source, counter in thresholds() if counter_source == source)


# The metrics of dcgm-exporter that the decoder `dcgm-metrics` reads.
#
# When the agent checks whether the output of dcgm-exporter has changed, it ignores all other metrics.

_FIELD = "DCGM_FI_DEV_"
XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
"""How often the Xid in the label `xid` occurred within the exporter's time window."""

HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS"
COUNTERS = frozenset(f"{_FIELD}{name}" for name in table("dcgm")["counters"])
STATES = {f"{_FIELD}{name}": tuple(state) for name, state in table("dcgm")["states"].items()}
"""The fault code and the message of each state that can be bad."""

RENAMED = {f"{_FIELD}{name}": f"{_FIELD}{before}" for name, before in table("dcgm")["renamed"].items()}
"""The earlier name of each renamed field, under which its values are compared."""

READ_FIELDS = COUNTERS | STATES.keys() | RENAMED.keys() | {XID_COUNT, HEALTH}


EFA_RATES = "efa_rates"
"""The member of a customer's mappings with rates by instance type; `null` removes a packaged rate."""
LINK_RATES = "link_rates"
"""The member of a customer's mappings with rates of ports, by shell pattern of `PORT` or `CLUSTER/PORT`."""
_MAX_RATE = 100_000


def efa_rates_with(extensions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, int]:
    """Return the packaged rates of EFA devices, in Gb/s by instance type, with a customer's changes."""
    own = extensions.get(EFA_RATES)
    if not own:
        return efa_rates_by_instance_type()
    return {name: int(rate) for name, rate in {**efa_rates_by_instance_type(), **own}.items() if rate is not None}


def expected_rate(extensions: Mapping[str, Mapping[str, Any]], cluster: str | None, port: str) -> int | None:
    """Return the rate in Gb/s that a customer expects of a port, by the first pattern that matches, or None."""
    for pattern, rate in extensions.get(LINK_RATES, {}).items():
        if fnmatchcase(f"{cluster}/{port}" if "/" in pattern else port, pattern):
            return None if rate is None else int(rate)
    return None


def check_rates(member: str, own: object) -> None:
    """Raise `Misconfigured` unless a customer's rates are valid, by instance type or by pattern."""
    for name, rate in _object(own, member).items():
        is_rate = isinstance(rate, int) and not isinstance(rate, bool) and 0 < rate <= _MAX_RATE
        if rate is not None and not is_rate:
            raise Misconfigured(f"wrong value of {member}.{name}: {rate!r}; expected a rate in Gb/s, or null")


@cache
def detectors(peers: str = "nodes") -> tuple[Detector, ...]:
    """Return every packaged detector of gray failures: what it compares among `nodes`, or within `jobs`."""
    from faultbridge.model.findings import Detector  # the agent has no msgspec

    return tuple(
        Detector(**{**row, "counters": tuple(row["counters"]), "proved_by": tuple(row["proved_by"])})
        for row in packaged_json("detectors.json")[peers]
    )
