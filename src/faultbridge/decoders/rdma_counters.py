"""`rdma-counters`: error counters of RDMA ports, from sysfs, `rdma -j statistic` or node_exporter, as readings.

Which counters are kept, and from which rise on they are a fault, is the data of the thresholds.

Grammar: `path: value` of sysfs, JSON of `rdma -j statistic`, flat or nested, or metrics (`port_tree`). A counter that
cannot be read is absent, not zero. Times: none is carried. Units: packets, events or bytes since the driver was
loaded. Errors: `Rejected(no_framing)` where no counter is there. Source: Linux's sysfs, rdma-core, node_exporter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.data.counters import counters_of
from faultbridge.decoders.base import Decoder, Hints
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import members, number, text
from faultbridge.decoders.port_tree import Port, ports_of
from faultbridge.domain.faults import CounterSample, Observation
from faultbridge.errors import Rejected

SOURCE = "rdma-counters"
MAX_PORTS = 512


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Read the counters that a threshold knows of every port; one that is not readable is left out."""
    written = text_of(body)
    ports = tuple(_statistic(written)) if written.lstrip()[:1] == "[" else ports_of(written)
    if not ports:
        raise Rejected("no_framing", "no counter of an RDMA port in it")
    known = counters_of(SOURCE)
    samples = (_reading(port, known) for port in ports)
    return tuple(sample for sample in samples if sample.values)


def recognize(body: bytes) -> bool:
    """Tell whether a tree with counters, the rdma tool's statistics or their metrics are there."""
    tree = b"/infiniband/" in body and b"counters/" in body
    statistics = b'"ifname"' in body and b'"port"' in body and b'"operstate"' not in body
    return tree or b"node_infiniband_link_downed" in body or statistics


def _reading(port: Port, known: frozenset[str]) -> CounterSample:
    values: dict[str, int | str] = {name: value for name, value in port.counters.items() if name in known}
    return CounterSample(SOURCE, port.component, values)


def _statistic(written: str) -> Iterator[Port]:
    """Read `rdma -j statistic`: counters stand beside the port's name, or one level deeper in newer versions."""
    for _, link in list(objects(written))[:MAX_PORTS]:
        name = text(link.get("ifname"), 64)
        if name is None or "port" not in link:
            continue
        port = Port(name, min(number(link["port"]) or 1, 999))
        port.counters = dict(_counters(link))
        for deeper in link.values():
            port.counters |= dict(_counters(members(deeper)))
        yield port


def _counters(written: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in written.items():
        counted = number(value)
        if counted is not None and name not in {"ifindex", "port"}:
            yield name[:64], counted


DECODER = Decoder(
    name=SOURCE,
    summary="/sys/class/infiniband/*/ports/*/{counters,hw_counters}/* as path: value, rdma -j statistic, node_exporter",
    example="/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed: 0\n"
    "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err: 12\n",
    recognize=recognize,
    decode=decode,
)
