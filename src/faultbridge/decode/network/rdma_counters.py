"""Decodes `rdma-counters`: the error counters of RDMA ports.

The packaged thresholds define which counters are kept, and which increase is a fault. Grammar: `path: value` lines of
sysfs, `name :value` lines below a line `# DEVICE/PORT`, `rdma statistic` as text or JSON (flat or nested), metrics
(`rdma_ports`), or the output of perfquery and mlxlink (`port_tools`). If the input also has states of ports, they are
decoded as the source `infiniband-state`. A counter that cannot be read is left out, and is not zero. Times: none.
Units: packets, events or bytes since the driver was loaded. Errors: `Rejected(no_framing)` without a port. Source:
Linux's sysfs, rdma-core, iproute2, node_exporter, NVIDIA's tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.data.counters import counters_of
from faultbridge.decode.frames.decoder import Hints, bounded, evidence, members, number, text
from faultbridge.decode.frames.documents import blocks, objects, text_of
from faultbridge.decode.network.infiniband_state import states_of
from faultbridge.decode.network.rdma_ports import (
    MODULE_FAULT,
    SIGNAL_FAULT,
    Port,
    is_port_tool,
    ports_of,
    ports_of_tools,
    state_number,
)
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import CounterSample, Fault, Observation

SOURCE = "rdma-counters"
MAX_PORTS = 512


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return the faults that mlxlink reports, the observations of port states, and counter samples.

    The observations of port states are those of the source `infiniband-state`. A port that has counters with a
    threshold gives one counter sample with only these counters.
    """
    document = text_of(body)
    if is_port_tool(body):
        ports = ports_of_tools(document)
    else:
        ports = tuple(_statistic(document)) if document.lstrip()[:1] == "[" else ports_of(document) or ()
    ports = ports or tuple(bounded(_listed(document), MAX_PORTS))
    if not ports:
        raise Rejected(
            "no_framing", "no counter of an RDMA port; put a line `# DEVICE/PORT` before counters without one"
        )
    with_threshold = counters_of(SOURCE)
    samples = (_reading(port, with_threshold) for port in ports)
    faults = (_fault(port, name, code) for port in ports for name, code in _FAULTS.items() if name in port.fields)
    with_state = [port for port in ports if state_number(port.fields.get("state")) is not None]
    states = states_of(with_state, hints) if with_state else ()
    return (*faults, *states, *(sample for sample in samples if sample.values))


def recognize(body: bytes) -> bool:
    """Return whether a body probably has counters of RDMA ports, in one of the known formats."""
    tree = b"/infiniband/" in body and b"counters/" in body
    statistics = b'"ifname"' in body and b'"port"' in body and b'"operstate"' not in body
    statistics = statistics and b'"physical_state"' not in body
    listed = (b"link " in body or b" :" in body) and _LISTED.search(text_of(body)) is not None
    return tree or b"node_infiniband_link_downed" in body or statistics or listed or is_port_tool(body)


def _reading(port: Port, with_threshold: frozenset[str]) -> CounterSample:
    values: dict[str, int | str] = {name: value for name, value in port.counters.items() if name in with_threshold}
    return CounterSample(SOURCE, port.component, values)


_FAULTS = {MODULE_FAULT: "net.port_module_error", SIGNAL_FAULT: "net.link_integrity"}


def _fault(port: Port, name: str, code: str) -> Fault:
    shown = f"{port.component.name}: {port.fields[name]}"
    return Fault(SOURCE, code, port.component, f"{shown}.", None, evidence(shown), {"error": port.fields[name]})


# `rdma statistic` as text, on one line or one counter a line; or counters of sysfs without their path.
_LISTED = re.compile(
    r"^(?:link ([\w.-]{1,64})/(\d{1,3})\s{1,64}[a-z]\w{2,63} \d"
    r"|# ?([\w.-]{1,64})/(\d{1,3})\s{1,8}[a-z]\w{2,63} {0,32}: ?\d)",
    re.MULTILINE,
)
_LISTED_COUNTER = re.compile(r"\b([a-z]\w{2,63})(?: {1,64}| {0,32}: ?)(\d{1,20})(?=\s|$)")


def _listed(document: str) -> Iterator[Port]:
    for found, details in blocks(_LISTED, document):
        name, port = found[1] or found[3], found[2] or found[4]
        counters = {name: int(count) for name, count in _LISTED_COUNTER.findall(found[0] + details)}
        yield Port(name, int(port), counters=counters)


def _statistic(document: str) -> Iterator[Port]:
    """Yield the ports of `rdma -j statistic`. Newer versions nest the counters one level deeper."""
    for _, link in list(objects(document))[:MAX_PORTS]:
        name = text(link.get("ifname"), 64)
        if name is None or "port" not in link:
            continue
        port = Port(name, min(number(link["port"]) or 1, 999))
        port.counters = dict(_counters(link))
        for nested in link.values():
            port.counters |= dict(_counters(members(nested)))
        yield port


def _counters(document: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in document.items():
        count = number(value)
        if count is not None and name not in {"ifindex", "port"}:
            yield name[:64], count
