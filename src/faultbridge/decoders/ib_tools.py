"""What `ibstat` and `ibstatus` print, as ports; `ibstat` may die half way, and then says at which device."""

from __future__ import annotations

import re

from faultbridge.decoders.port_tree import Port

_CA = re.compile(r"^CA '([^']{1,64})'", re.MULTILINE)
_PORT = re.compile(r"^\s{1,16}Port (\d{1,3}):", re.MULTILINE)
_FIELD = re.compile(r"^\s{1,16}(State|Physical state|Rate|Link layer): {0,4}(\S.{0,64})$", re.MULTILINE)
_STATUS = re.compile(r"^Infiniband device '([^']{1,64})' port (\d{1,3}) status:", re.MULTILINE)
_STATUS_FIELD = re.compile(r"^\s{1,16}(state|phys state|rate|link_layer): {0,16}(\S.{0,64})$", re.MULTILINE)
_PANIC = re.compile(r"^ibpanic: .{0,128}\bIB device '([^']{1,64})' failed", re.MULTILINE)
_NAMES = {"State": "state", "Physical state": "phys_state", "Rate": "rate", "Link layer": "link_layer"}
_STATES = {"down": "1: DOWN", "initializing": "2: INIT", "init": "2: INIT", "armed": "3: ARMED", "active": "4: ACTIVE"}
_PHYSICAL = {
    "sleep": 1,
    "polling": 2,
    "disabled": 3,
    "portconfigurationtraining": 4,
    "linkup": 5,
    "linkerrorrecovery": 6,
}


def ports_of_ibstat(body: str) -> tuple[Port, ...]:
    """Read the whole blocks of `ibstat`."""
    found: list[Port] = []
    for name, block in _blocks(_CA, body):
        for number, fields in _blocks(_PORT, block):
            port = Port(name[1], int(number[1]))
            port.fields = {_NAMES[one]: _numbered(one, value.strip()) for one, value in _FIELD.findall(fields)}
            found.append(port)
    return tuple(found)


def ports_of_ibstatus(body: str) -> tuple[Port, ...]:
    """Read the blocks of `ibstatus`."""
    found: list[Port] = []
    for heading, block in _blocks(_STATUS, body):
        port = Port(heading[1], int(heading[2]))
        port.fields = {name.replace(" ", "_"): value.strip() for name, value in _STATUS_FIELD.findall(block)}
        found.append(port)
    return tuple(found)


def vanished(body: str) -> tuple[str, ...]:
    """Return the devices at which `ibstat` died: listed a moment before, gone when they were read."""
    return tuple(_PANIC.findall(body))


def _numbered(name: str, value: str) -> str:
    if name == "State":
        return _STATES.get(value.lower(), value)
    if name == "Physical state":
        number = _PHYSICAL.get(value.lower())
        return f"{number}: {value}" if number else value
    return value


def _blocks(heading: re.Pattern[str], body: str) -> list[tuple[re.Match[str], str]]:
    found = list(heading.finditer(body))
    ends = (*(one.start() for one in found[1:]), len(body))
    return [(one, body[one.end() : end]) for one, end in zip(found, ends, strict=False)]
