"""`ethtool-stats`: `ethtool -S` of one or several interfaces, or its metrics, as readings.

Allowances of an instance are shaping, not loss, and what is available of one is a gauge: neither is kept.

Grammar: `NIC statistics:` and `name: value` lines, with the interface's name on a line before where there are several.
Times: none is carried. Units: packets, events or bytes since the driver was loaded. Errors: `Rejected(no_framing)`
where no statistic is there. Source: ethtool, the ENA and EFA drivers, node_exporter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.data.counters import counters_of
from faultbridge.decoders.base import Decoder, Hints
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.exposition import samples
from faultbridge.domain.faults import Component, ComponentType, CounterSample, Observation
from faultbridge.errors import Rejected

SOURCE = "ethtool-stats"
METRICS = ("node_ethtool_",)
_HEADING = "NIC statistics:"
_NAMED = re.compile(r"(?:== |# |Settings for |)([\w.@-]{1,64}):?(?: ==)?$")
_COUNTER = re.compile(r"\s{0,16}(?:\[\d{1,4}\]: ?)?([\w.\[\] -]{1,64}): (-?\d{1,20})$")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Read the counters that a threshold knows of every interface."""
    written = text_of(body)
    found = dict(_of_metrics(written)) if METRICS[0] in written else dict(_of_text(written))
    if not found:
        raise Rejected("no_framing", "no statistics of an interface in it")
    known = counters_of(SOURCE)
    kept = ((name, {one: value for one, value in values.items() if one in known}) for name, values in found.items())
    return tuple(
        CounterSample(SOURCE, Component(ComponentType.NIC, name=name), values) for name, values in kept if values
    )


def recognize(body: bytes) -> bool:
    """Tell whether the tool's heading or its metrics are there."""
    return _HEADING.encode() in body or METRICS[0].encode() in body


def _of_text(written: str) -> Iterator[tuple[str | None, dict[str, int | str]]]:
    """Read outputs one after another; a line with an interface's name may stand before each."""
    name: str | None = None
    values: dict[str, int | str] = {}
    begun = False
    for line in written.splitlines():
        counter = _COUNTER.match(line[:256])
        if counter:
            begun = True
            values[counter[1].strip()] = int(counter[2])
        elif line.strip() == _HEADING:
            begun = True
        elif (named := _NAMED.match(line.strip()[:128])) is not None:
            if begun:
                yield name, values
            name, values, begun = named[1], {}, False
    if begun:
        yield name, values


def _of_metrics(written: str) -> Iterator[tuple[str | None, dict[str, int | str]]]:
    found: dict[str, dict[str, int | str]] = {}
    for sample in samples(written, METRICS):
        device = sample.label("device")
        if device and sample.value is not None:
            name = sample.name.removeprefix(METRICS[0]).removesuffix("_total")
            found.setdefault(device[:64], {})[name[:64]] = int(sample.value)
    yield from found.items()


DECODER = Decoder(
    name=SOURCE,
    summary="ethtool -S, several with the interface's name on a line before each, or node_ethtool_* metrics",
    example="ens5:\nNIC statistics:\n     tx_timeout: 0\n     bw_in_allowance_exceeded: 11072\n",
    recognize=recognize,
    decode=decode,
)
