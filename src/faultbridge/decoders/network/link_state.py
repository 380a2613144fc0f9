"""Decodes `link-state`: the links of network interfaces, from `ip link`, `ip addr` or ethtool.

An interface is in use if it is listed as configured. A physical interface with the flag `UP` is also in use if it
belongs to a bond or has a global address. It is no fault if an unused interface is down.

ethtool does not print which interfaces are in use. The health snapshot of its output therefore reports no link as down
or absent; it only compares the rates of interfaces of the same kind with each other (`rate_peers`).

Grammar: a JSON list of iproute2's objects, or `{interfaces, configured}` with such a list; or the text that one of
these tools prints (`link_text`). Times: none. Units: Gb/s. Errors: `Rejected(wrong_shape)` for other input. Source:
iproute2, ethtool and captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decoders.common.decoder import Decoder, Hints
from faultbridge.decoders.common.documents import documents, text_of
from faultbridge.decoders.common.fields import bounded, evidence, truncate
from faultbridge.decoders.common.interfaces import is_virtual
from faultbridge.decoders.network.link_text import is_ethtool_settings, is_ip_text, kinds_of, links_of, settings_of
from faultbridge.decoders.network.rate_peers import PortRate, compare_rates
from faultbridge.domain.faults import Component, ComponentType, CounterSample, Fault, Observation, Snapshot
from faultbridge.errors import Rejected

SOURCE = "link-state"
DOWN_CODE, ABSENT_CODE = "net.link_down", "net.link_absent"
_LISTS = ("interfaces", "intf_status")
_CONFIGURED = ("configured", "intf_ifcfg")
_LINK_TYPES = frozenset({"ether", "infiniband"})
_DOWN_STATES = frozenset({"DOWN", "LOWERLAYERDOWN", "NOTPRESENT"})
_NAME = re.compile(r"[^\s/]{1,64}")
_Link = Mapping[str, Any]


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of the interfaces in use, and a counter sample of each physical interface.

    The output of ethtool does not show which interfaces are in use. Its snapshot only compares the rates of the ports,
    and is left out if no rates can be compared.
    """
    text = text_of(body)
    if is_ethtool_settings(text):
        return tuple(_observations_of_settings(text))
    listed = (links_of(text),) if is_ip_text(text) else documents(body)
    return tuple(observation for document in listed for observation in _observations(document))


def _observations_of_settings(text: str) -> Iterator[Observation]:
    settings = [(name, values) for name, values in settings_of(text) if not is_virtual(name)]
    kinds = kinds_of(text)
    rates = ((name, values.get("link_rate")) for name, values in settings if name in kinds)
    compared = compare_rates(
        SOURCE, (PortRate(_nic(name), kinds[name], rate) for name, rate in rates if isinstance(rate, int))
    )
    if compared is not None:
        yield compared
    yield from (CounterSample(SOURCE, _nic(name), values) for name, values in settings)


def _observations(document: object) -> Iterator[Observation]:
    links = tuple(_links(document))
    configured = _configured(document)
    by_name = {str(link["ifname"]): link for link in links}
    in_use = {name: link for name, link in by_name.items() if _in_use(link, configured)}
    bounded(in_use)
    absent = sorted((configured or frozenset()) - by_name.keys())
    present = [_down(name, link) for name, link in in_use.items() if _is_down(link)]
    present += [_absent(name) for name in absent]
    covers = {DOWN_CODE: _nics(in_use), ABSENT_CODE: _nics([*in_use, *absent])} if in_use or absent else {}
    yield Snapshot(SOURCE, covers, tuple(present))
    yield from (_reading(name, link) for name, link in by_name.items() if _is_physical(link))


def recognize(body: bytes) -> bool:
    """Return whether a body probably lists interfaces with their states, or has ethtool settings."""
    if body.lstrip()[:1] in {b"[", b"{"}:
        return b'"ifname"' in body and b'"operstate"' in body
    return is_ip_text(text_of(body)) or is_ethtool_settings(text_of(body))


def _links(document: object) -> Iterator[_Link]:
    listed = document
    if isinstance(document, dict):
        listed = next((document[name] for name in _LISTS if name in document), None)
    if not isinstance(listed, list):
        raise Rejected("wrong_shape", "neither a list of interfaces nor an object with such a list")
    for link in listed:
        if isinstance(link, dict) and link:
            if not isinstance(link.get("ifname"), str) or "operstate" not in link:
                raise Rejected("wrong_shape", "an interface without a name or an operational state")
            if _NAME.fullmatch(link["ifname"]):
                yield link


def _configured(document: object) -> frozenset[str] | None:
    if not isinstance(document, dict):
        return None
    given = next((document[name] for name in _CONFIGURED if name in document), None)
    if not isinstance(given, list | dict):
        return None
    return frozenset(str(name) for name in given if _NAME.fullmatch(str(name)))


def _in_use(link: _Link, configured: frozenset[str] | None) -> bool:
    if configured is not None and link["ifname"] in configured:
        return True
    return _is_physical(link) and "UP" in _flags(link) and (_master(link) is not None or _has_address(link))


def _is_physical(link: _Link) -> bool:
    return link.get("link_type", "ether") in _LINK_TYPES and not is_virtual(link["ifname"])


def _is_down(link: _Link) -> bool:
    return str(link["operstate"]).upper() in _DOWN_STATES or "NO-CARRIER" in _flags(link)


def _flags(link: _Link) -> tuple[str, ...]:
    flags = link.get("flags")
    return tuple(str(flag)[:32] for flag in flags[:32]) if isinstance(flags, list) else ()


def _master(link: _Link) -> str | None:
    master = link.get("master", link.get("main"))
    return master[:64] if isinstance(master, str) and master else None


def _has_address(link: _Link) -> bool:
    addresses = link.get("addr_info")
    listed = addresses if isinstance(addresses, list) else []
    return any(isinstance(address, dict) and address.get("scope") == "global" for address in listed)


def _down(name: str, link: _Link) -> Fault:
    flags, master = " ".join(_flags(link)), _master(link)
    state = str(link["operstate"])[:32]
    details = {"operstate": state, "flags": flags} | ({"master": master} if master else {})
    text = f"{name} is {state}" + (", no carrier" if "NO-CARRIER" in flags else "")
    return Fault(
        SOURCE, DOWN_CODE, _nic(name), truncate(f"{text}."), None, evidence(f"{name}: <{flags}> state {state}"), details
    )


def _absent(name: str) -> Fault:
    return Fault(SOURCE, ABSENT_CODE, _nic(name), f"{name} is configured but absent.", None, f"no interface {name}")


def _reading(name: str, link: _Link) -> CounterSample:
    state = str(link["operstate"])[:32]
    return CounterSample(SOURCE, _nic(name), {"operstate": state, "carrier": int("LOWER_UP" in _flags(link))})


def _nics(names: Mapping[str, _Link] | list[str]) -> tuple[Component, ...]:
    return tuple(_nic(name) for name in names)


def _nic(name: str) -> Component:
    return Component(ComponentType.NIC, name=name)


DECODER = Decoder(
    name=SOURCE,
    summary="ip link, ip addr (also -j), ethtool INTERFACE: links; {interfaces, configured} also finds absent ones",
    example='[{"ifname": "ens5", "flags": ["BROADCAST", "UP", "LOWER_UP"], "operstate": "UP", "link_type": "ether"}]',
    recognize=recognize,
    decode=decode,
)
