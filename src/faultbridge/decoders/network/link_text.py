"""Reads the text output of `ip link`, `ip addr` and `ethtool INTERFACE`.

Grammar: `N: NAME[@PEER]: <FLAGS> ... [master M] state STATE`, indented `link/TYPE` and `inet ADDRESS ... scope SCOPE`;
`Settings for NAME:` with indented `Speed: 100000Mb/s` and `Link detected: yes`. Source: iproute2 and ethtool.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

from faultbridge.decoders.common.fields import bounded

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


def is_ip_text(text: str) -> bool:
    """Return whether a text lists an interface with its state, as `ip link` prints it."""
    found = _LINK.search(text)
    return found is not None and _STATE.search(found[3]) is not None


def is_ethtool_settings(text: str) -> bool:
    """Return whether a text has ethtool's settings of an interface, including its link state."""
    return "NIC statistics:" not in text and _SETTINGS.search(text) is not None and _DETECTED.search(text) is not None


def links_of(text: str) -> list[dict[str, Any]]:
    """Return the interfaces of `ip` text output, in the structure that `ip -j addr` prints.

    Raises `Rejected` for more than 1024 interfaces.
    """
    return bounded(_links(text), _MAX_LINKS)


def _links(text: str) -> Iterator[dict[str, Any]]:
    for found, details in _blocks(_LINK, text):
        state, master, kind = _STATE.search(found[3]), _MASTER.search(found[3]), _TYPE.search(details)
        if state is not None:
            link = {"ifname": found[1], "flags": found[2].split(","), "operstate": state[1]}
            link |= {"link_type": kind[1]} if kind else {}
            link |= {"master": master[1]} if master else {}
            yield link | ({"addr_info": [{"scope": "global"}]} if _GLOBAL.search(details) else {})


def settings_of(text: str) -> list[tuple[str, dict[str, int | str]]]:
    """Return the name and values of each interface in ethtool settings.

    `carrier` is 1 or 0. `link_rate` is the speed in Gb/s, and is present only while the link is up. Raises `Rejected`
    for more than 1024 interfaces.
    """
    return bounded(_settings(text), _MAX_LINKS)


def _settings(text: str) -> Iterator[tuple[str, dict[str, int | str]]]:
    for found, details in _blocks(_SETTINGS, text):
        link, speed = _DETECTED.search(details), _SPEED.search(details)
        if link is not None:
            is_up = link[1] == "yes"
            values: dict[str, int | str] = {"carrier": int(is_up)}
            yield found[1], values | ({"link_rate": int(speed[1]) // 1000} if speed and is_up else {})


def kinds_of(text: str) -> dict[str, Hashable]:
    """Return the kind of each interface in ethtool settings, so that rates can be compared within a kind.

    The kind consists of the medium and the supported link modes. An interface without supported link modes is left out.
    """
    found: dict[str, Hashable] = {}
    for name, details in _blocks(_SETTINGS, text):
        modes, medium = _MODES.search(details), _MEDIUM.search(details)
        supported = frozenset(_MODE.findall(modes[1])) if modes else frozenset()
        if supported:
            found[name[1]] = (medium[1].strip() if medium else "", supported)
    return found


def _blocks(heading: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    last: re.Match[str] | None = None
    for found in heading.finditer(text):
        if last is not None:
            yield last, text[last.end() : found.start()]
        last = found
    if last is not None:
        yield last, text[last.end() :]
