"""Reads the ports that `rdma link` prints, as text or JSON.

Grammar: one line `link DEVICE/PORT state STATE physical_state STATE [netdev NAME]` per port, or JSON objects with these
members. Source: iproute2's rdma/link.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from faultbridge.decoders.common.documents import objects, text_of
from faultbridge.decoders.common.fields import number, text
from faultbridge.decoders.network.rdma_ports import MAX_PORTS, Port

_LINK = re.compile(
    r"^(?:link |\d{1,3}/\d{1,3}: )?([\w.-]{1,64})/(\d{1,3}):? (?:.{0,64} )?state (\w{1,16}) physical_state (\w{1,32})",
    re.MULTILINE,
)
_STATES: Mapping[str, str] = {"DOWN": "1: DOWN", "INIT": "2: INIT", "ARMED": "3: ARMED", "ACTIVE": "4: ACTIVE"}
_PHYSICAL_STATES: Mapping[str, str] = {
    "SLEEP": "1: Sleep",
    "POLLING": "2: Polling",
    "DISABLED": "3: Disabled",
    "PORT_CONFIGURATION_TRAINING": "4: PortConfigurationTraining",
    "LINK_UP": "5: LinkUp",
    "LINK_ERROR_RECOVER": "6: LinkErrorRecovery",
}


def is_rdma_link(body: bytes) -> bool:
    """Return whether a body is probably the output of `rdma link`."""
    is_json = b'"physical_state"' in body and b'"ifname"' in body
    return is_json or (b" physical_state " in body and _LINK.search(text_of(body)) is not None)


def ports_of_rdma_link(body: str) -> Iterator[Port]:
    """Yield the ports in the output of `rdma link` in order, up to 512."""
    if body.lstrip()[:1] in {"[", "{"}:
        for _, link in list(objects(body))[:MAX_PORTS]:
            name = text(link.get("ifname"), 64)
            if name is not None and "physical_state" in link:
                port = min(number(link.get("port")) or 1, 999)
                yield _port(name, port, str(link.get("state", "")), str(link["physical_state"]))
        return
    for found in list(_LINK.finditer(body))[:MAX_PORTS]:
        yield _port(found[1], int(found[2]), found[3], found[4])


def _port(name: str, number: int, state: str, physical: str) -> Port:
    fields = {"state": _STATES.get(state.upper(), ""), "phys_state": _PHYSICAL_STATES.get(physical.upper(), "")}
    return Port(name, number, {field: value for field, value in fields.items() if value})
