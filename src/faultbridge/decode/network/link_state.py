"""Decodes `link-state` and `ethtool-stats`: links and counters of network interfaces, from iproute2 or ethtool.

An interface is in use if it is listed as configured. A physical interface with the flag `UP` is also in use if it
belongs to a bond or has a global address. It is no fault if an unused interface is down.

ethtool does not print which interfaces are in use. The health snapshot of its output therefore reports no link as down
or absent; it only compares the rates of interfaces of the same kind with each other.

Grammar: a JSON list of iproute2's objects, or `{interfaces, configured}` with such a list; or the text that one of
these tools prints. Times: none. Units: Gb/s. Errors: `Rejected(wrong_shape)` for other input. Source:
iproute2, ethtool and captures.

`ethtool-stats` are counters from `ethtool -S` or node_exporter metrics; only those that have a threshold are kept. The
allowance counters of EC2 have none: counters of exceeded allowances show traffic shaping, not loss, and counters of
available allowances are gauges. Grammar: `NIC statistics:` and `name: value` lines; with several interfaces, a line
with the name comes before each one. Units: packets, events or bytes since the driver was loaded. Errors:
`Rejected(no_framing)` without a statistic. Source: ethtool, the ENA and EFA drivers, node_exporter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from faultbridge.decode.data.counters import counters_of, expected_rate
from faultbridge.decode.frames.decoder import Hints, Judged, fault_of, snapshot_of
from faultbridge.decode.frames.documents import blocks, documents, text_of
from faultbridge.decode.frames.prometheus import samples
from faultbridge.decode.frames.values import bounded, elements, is_virtual, objects_in
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample, Fault, Observation, Snapshot

# Reads the text output of `ip link`, `ip addr` and `ethtool INTERFACE`.
#
# Grammar: `N: NAME[@PEER]: <FLAGS> ... [master M] state STATE`, indented `link/TYPE` and `inet ADDRESS ... scope
# SCOPE`; `Settings for NAME:` with indented `Speed: 100000Mb/s` and `Link detected: yes`. Source: iproute2 and ethtool.

_MAX_LINKS = 1024
_LINK = re.compile(r"^\d{1,9}: ([^\s:@]{1,64})(?:@[^\s:]{1,64})?: <([A-Z0-9_,-]{0,256})> ([^\n]{1,512})$", re.MULTILINE)
_STATE = re.compile(r"\bstate ([A-Z]{1,32})\b")
_MASTER = re.compile(r"\bmaster ([^\s]{1,64})")
_TYPE = re.compile(r"^\s{1,16}link/(\w{1,32})", re.MULTILINE)
_GLOBAL = re.compile(r"^\s{1,16}inet6? [^\n]{1,256} scope global\b", re.MULTILINE)
_SETTINGS = re.compile(r"^Settings for ([^\s:]{1,64}):[ \t]{0,8}$", re.MULTILINE)
_SPEED = re.compile(r"^\s{1,16}Speed: (\d{1,9})Mb/s$", re.MULTILINE)
_MODES = re.compile(r"^\s{1,16}Supported link modes:([^:]{1,2048})$", re.MULTILINE)
_MODE = re.compile(r"\d{2,7}base\w{1,16}/\w{4}")
_MEDIUM = re.compile(r"^\s{1,16}Port: ([^\n]{1,32})$", re.MULTILINE)
_DETECTED = re.compile(r"^\s{1,16}Link detected: (yes|no)\b", re.MULTILINE)


def _is_ip_text(text: str) -> bool:
    """Return whether a text lists an interface with its state, as `ip link` prints it."""
    found = _LINK.search(text)
    return found is not None and _STATE.search(found[3]) is not None


def _is_ethtool_settings(text: str) -> bool:
    """Return whether a text has ethtool's settings of an interface, including its link state."""
    return "NIC statistics:" not in text and _SETTINGS.search(text) is not None and _DETECTED.search(text) is not None


def _links(text: str) -> Iterator[dict[str, Any]]:
    """Yield the interfaces of `ip` text output, in the structure that `ip -j addr` prints."""
    for found, details in blocks(_LINK, text):
        state, master, kind = _STATE.search(found[3]), _MASTER.search(found[3]), _TYPE.search(details)
        if state is not None:
            link = {"ifname": found[1], "flags": found[2].split(","), "operstate": state[1]}
            link |= {"link_type": kind[1]} if kind else {}
            link |= {"master": master[1]} if master else {}
            yield link | ({"addr_info": [{"scope": "global"}]} if _GLOBAL.search(details) else {})


def _settings(text: str) -> Iterator[tuple[str, dict[str, int | str], Hashable]]:
    """Yield the name, values and kind of each interface in ethtool settings; rates are compared within a kind."""
    for found, details in blocks(_SETTINGS, text):
        link, speed = _DETECTED.search(details), _SPEED.search(details)
        modes, medium = _MODES.search(details), _MEDIUM.search(details)
        supported = frozenset(_MODE.findall(modes[1])) if modes else frozenset()
        kind = (medium[1].strip() if medium else "", supported) if supported else None
        if link is not None and not is_virtual(found[1]):
            is_up = link[1] == "yes"
            values: dict[str, int | str] = {"carrier": int(is_up)}
            yield found[1], values | ({"link_rate": int(speed[1]) // 1000} if speed and is_up else {}), kind


# Compares the rates of ports of the same kind within one record.
#
# The caller defines the kind of a port, for example by its model, link type and fabric. A port is slower than its peers
# if its rate is below the rate that most ports of its kind have. This is a fault. The rate of a single port proves no
# fault, because the switch at its other end can be slower than the card. A customer can state the expected rate, so
# that ports that are all equally slow are found too. Units: Gb/s.

SLOWER, BELOW = "net.rate_below_peers", "net.rate_below_expected"


class PortRate(Struct, frozen=True):
    """The rate in Gb/s of a port whose link is up. Only ports with an equal `kind` that is not None are compared."""

    component: Component
    kind: Hashable
    rate: int


def compare_rates(source: str, rates: Iterable[PortRate], hints: Hints) -> Snapshot | None:
    """Return a health snapshot with a fault for each port that is slower than the customer expects, or than its peers.

    A port with an expected rate is compared with this rate only. The other ports of a kind can be compared if there are
    at least two, and if more than half of them have the same rate. A port with a lower rate than this is faulty. The
    result is None if no ports can be compared.
    """
    judged = list(_judged_rates(source, rates, hints))
    return snapshot_of(source, judged, part="rates") if judged else None


def _judged_rates(source: str, rates: Iterable[PortRate], hints: Hints) -> Iterator[Judged]:
    kinds: defaultdict[Hashable, dict[Component, int]] = defaultdict(dict)
    for one in rates:
        port, expected = one.component, expected_rate(hints.mappings, hints.cluster, one.component.name or "")
        if expected is None:
            kinds[one.kind][port] = one.rate
        else:
            text = f"{port.name} has a rate of {one.rate} Gb/s; {expected} Gb/s are expected."
            fault = fault_of(source, BELOW, port, text, rate=str(one.rate), expected=str(expected))
            yield BELOW, port, fault if one.rate < expected else None
    kinds.pop(None, None)
    for ports in kinds.values():
        usual, count = Counter(ports.values()).most_common(1)[0]
        for port, rate in ports.items() if len(ports) > 1 and 2 * count > len(ports) else ():
            text = f"{port.name} has a rate of {rate} Gb/s; most ports of its kind have {usual} Gb/s."
            fault = fault_of(source, SLOWER, port, text, rate=str(rate), rate_of_peers=str(usual))
            yield SLOWER, port, fault if rate < usual else None


SOURCE = "link-state"
DOWN_CODE, ABSENT_CODE = "net.link_down", "net.link_absent"
_LISTS = ("interfaces", "intf_status")
_CONFIGURED = ("configured", "intf_ifcfg")
_LINK_TYPES = frozenset({"ether", "infiniband"})
_DOWN_STATES = frozenset({"DOWN", "LOWERLAYERDOWN", "NOTPRESENT"})
_NAME = re.compile(r"[^\s/]{1,64}")
_Link = Mapping[str, Any]


def decode(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of the interfaces in use, and a counter sample of each physical interface.

    The output of ethtool does not show which interfaces are in use. Its snapshot only compares the rates of the ports,
    and is left out if no rates can be compared.
    """
    if source == STATISTICS:
        return _of_statistics(body)
    text = text_of(body)
    if _is_ethtool_settings(text):
        return tuple(_observations_of_settings(text, hints))
    listed = (bounded(_links(text), _MAX_LINKS),) if _is_ip_text(text) else documents(body)
    return tuple(observation for document in listed for observation in _observations(document))


def _observations_of_settings(text: str, hints: Hints) -> Iterator[Observation]:
    settings = [(_nic(name), values, kind) for name, values, kind in bounded(_settings(text), _MAX_LINKS)]
    rates = ((port, kind, values.get("link_rate")) for port, values, kind in settings)
    ports = (PortRate(port, kind, rate) for port, kind, rate in rates if isinstance(rate, int))
    compared = compare_rates(SOURCE, ports, hints)
    if compared is not None:
        yield compared
    yield from (CounterSample(SOURCE, port, values) for port, values, _ in settings)


def _observations(document: object) -> Iterator[Observation]:
    configured = _configured(document)
    by_name = {str(link["ifname"]): link for link in _links_of_link_state(document)}
    in_use = bounded(name for name, link in by_name.items() if _in_use(link, configured))
    judged: list[Judged] = [(DOWN_CODE, _nic(name), _down(name, by_name[name])) for name in in_use]
    judged += ((ABSENT_CODE, _nic(name), None) for name in in_use)
    for name in sorted((configured or frozenset()) - by_name.keys()):
        text, raw = f"{name} is configured but absent.", f"no interface {name}"
        judged.append((ABSENT_CODE, _nic(name), fault_of(SOURCE, ABSENT_CODE, _nic(name), text, raw)))
    yield snapshot_of(SOURCE, judged)
    for name, link in by_name.items():
        if _is_physical(link):
            state = str(link["operstate"])[:32]
            yield CounterSample(SOURCE, _nic(name), {"operstate": state, "carrier": int("LOWER_UP" in _flags(link))})


def recognize(_source: str, body: bytes) -> bool:
    """Return whether a body probably lists interfaces with their states, or has ethtool settings."""
    if body.lstrip()[:1] in {b"[", b"{"}:
        return b'"ifname"' in body and b'"operstate"' in body
    return _is_ip_text(text_of(body)) or _is_ethtool_settings(text_of(body))


def _links_of_link_state(document: object) -> Iterator[_Link]:
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
    has_address = any(address.get("scope") == "global" for address in objects_in(link.get("addr_info")))
    return _is_physical(link) and "UP" in _flags(link) and (_master(link) is not None or has_address)


def _is_physical(link: _Link) -> bool:
    return link.get("link_type", "ether") in _LINK_TYPES and not is_virtual(link["ifname"])


def _flags(link: _Link) -> list[str]:
    return [str(flag)[:32] for flag in elements(link.get("flags"))[:32]]


def _master(link: _Link) -> str | None:
    master = link.get("master", link.get("main"))
    return master[:64] if isinstance(master, str) and master else None


def _down(name: str, link: _Link) -> Fault | None:
    """Return the fault of an interface that is down, or None if it is up."""
    flags, state = " ".join(_flags(link)), str(link["operstate"])[:32]
    has_carrier = "NO-CARRIER" not in flags
    if has_carrier and state.upper() not in _DOWN_STATES:
        return None
    text, raw = f"{name} is {state}{'' if has_carrier else ', no carrier'}.", f"{name}: <{flags}> state {state}"
    return fault_of(SOURCE, DOWN_CODE, _nic(name), text, raw, operstate=state, flags=flags, master=_master(link))


def _nic(name: str | None) -> Component:
    return Component(ComponentType.NIC, name=name)


STATISTICS = "ethtool-stats"
METRICS = ("node_ethtool_",)
_HEADING = "NIC statistics:"
_NAMED = re.compile(r"(?:== |# |Settings for |)([\w.@-]{1,64}):?(?: ==)?$")
_COUNTER = re.compile(r"\s{0,16}(?:\[\d{1,4}\]: ?)?([\w.\[\] -]{1,64}): (-?\d{1,20})$")


def _of_statistics(body: bytes) -> tuple[Observation, ...]:
    """Return a counter sample of each interface, with the counters that have a threshold."""
    text = text_of(body)
    found = list(_of_metrics(text) if METRICS[0] in text else _of_text(text))
    if not found:
        raise Rejected("no_framing", "no statistics of an interface")
    known = counters_of(STATISTICS)
    kept = ((name, {counter: value for counter, value in values.items() if counter in known}) for name, values in found)
    return tuple(CounterSample(STATISTICS, _nic(name), values) for name, values in kept if values)


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
