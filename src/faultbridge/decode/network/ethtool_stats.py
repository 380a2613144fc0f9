"""Decodes `ethtool-stats`: counters of network interfaces from `ethtool -S` or node_exporter metrics.

Only counters that have a threshold are kept. The allowance counters of EC2 have no threshold. Counters of exceeded
allowances show traffic shaping, not loss. Counters of available allowances are gauges. Grammar: `NIC statistics:` and
`name: value` lines; with several interfaces, a line with the name comes before each one. Times: none. Units: packets,
events or bytes since the driver was loaded. Errors: `Rejected(no_framing)` without a statistic. Source: ethtool, the
ENA and EFA drivers, node_exporter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.decode.data.counters import counters_of
from faultbridge.decode.frames.decoder import Hints
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.prometheus import samples
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample, Observation

SOURCE = "ethtool-stats"
METRICS = ("node_ethtool_",)
_HEADING = "NIC statistics:"
_NAMED = re.compile(r"(?:== |# |Settings for |)([\w.@-]{1,64}):?(?: ==)?$")
_COUNTER = re.compile(r"\s{0,16}(?:\[\d{1,4}\]: ?)?([\w.\[\] -]{1,64}): (-?\d{1,20})$")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a counter sample of each interface, with the counters that have a threshold."""
    text = text_of(body)
    found = list(_of_metrics(text) if METRICS[0] in text else _of_text(text))
    if not found:
        raise Rejected("no_framing", "no statistics of an interface")
    with_threshold = counters_of(SOURCE)
    samples_by_name = (
        (name, {counter_name: value for counter_name, value in values.items() if counter_name in with_threshold})
        for name, values in found
    )
    return tuple(
        CounterSample(SOURCE, Component(ComponentType.NIC, name=name), values)
        for name, values in samples_by_name
        if values
    )


def _of_text(text: str) -> Iterator[tuple[str | None, dict[str, int | str]]]:
    """Yield the name and the counters of each interface in `ethtool -S` output."""
    name: str | None = None
    values: dict[str, int | str] = {}
    started = False
    for line in text.splitlines():
        counter = _COUNTER.match(line[:256])
        if counter:
            started = True
            values[counter[1].strip()] = int(counter[2])
        elif line.strip() == _HEADING:
            if values:
                # A second heading without a name before it is a later sample of the same interface.
                yield name, values
                values = {}
            started = True
        elif (name_line := _NAMED.match(line.strip()[:128])) is not None:
            if started:
                yield name, values
            name, values, started = name_line[1], {}, False
    if started:
        yield name, values


def _of_metrics(text: str) -> Iterator[tuple[str | None, dict[str, int | str]]]:
    found: dict[str, dict[str, int | str]] = {}
    for sample in samples(text, METRICS):
        device = sample.label("device")
        if device and sample.value is not None:
            name = sample.name.removeprefix(METRICS[0]).removesuffix("_total")
            if name[:64] in found.get(device[:64], {}):
                # A repeated series belongs to the next scrape.
                yield from found.items()
                found = {}
            found.setdefault(device[:64], {})[name[:64]] = int(sample.value)
    yield from found.items()
