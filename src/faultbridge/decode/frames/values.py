"""Reads values of untrusted input within limits: members of JSON, numbers, PCI addresses, names of interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, AnyStr, TypeVar

from faultbridge.model.errors import Rejected
from faultbridge.model.faults import normalize_pci

_Item = TypeVar("_Item")

EMPTY: Mapping[str, Any] = {}
MAX_TEXT = 4096
# No node has this many GPUs: a body that names more does not describe one node.
MAX_GPUS = 128
_NO_KEY = re.compile(r"[^a-z0-9]+")
_PCI = re.compile(r"(?:PCI:)?(?:[0-9a-f]{1,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?", re.IGNORECASE)


def text(value: object, limit: int = MAX_TEXT) -> str | None:
    """Return a string without outer spaces, cut to `limit` characters, or None if nothing is left.

    A value that is not a string also gives None.
    """
    if not isinstance(value, str):
        return None
    return value.strip()[:limit] or None


def members(value: object) -> Mapping[str, Any]:
    """Return the members of a JSON object, or an empty mapping for a value of another type."""
    return value if isinstance(value, dict) else EMPTY


def elements(value: object) -> tuple[Any, ...]:
    """Return the elements of a JSON array, or an empty tuple for a value of another type."""
    return tuple(value) if isinstance(value, list) else ()


def objects_in(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return those elements of a JSON array that are objects; empty for a value of another type."""
    return tuple(item for item in elements(value) if isinstance(item, dict))


def number(value: object) -> int | None:
    """Return an integer from 0 to 2^64 - 1, or None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 2**64 else None
    return number(digits(value, 20)) if isinstance(value, str) else None


def digits(text: str | None, most: int) -> int | None:
    """Return the number that a text of at most `most` decimal digits states, or None for any other text."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= most else None


def key_of(label: str) -> str:
    """Return a label in lower case with underscores, as the name of a field or an attribute."""
    return _NO_KEY.sub("_", label.lower()).strip("_")


def bounded(items: Iterable[_Item], limit: int = MAX_GPUS) -> list[_Item]:
    """Return the items as a list; raises Rejected for more than `limit` items.

    At most one item more than `limit` is read, so that too many items do not use up the memory.
    """
    found = list(islice(items, limit + 1))
    if len(found) > limit:
        raise Rejected("too_many_devices", f"more than {limit} devices of one node; send one node's devices at a time")
    return found


def pci_of(address: str) -> str | None:
    """Return a PCI address in normalized form, or None if the text is not a PCI address."""
    return normalize_pci(address) if _PCI.fullmatch(address) else None


# Names of virtual network interfaces: those of containers, virtual machines and tunnels.
#
# Such an interface appears and disappears with its container. The node has no fault if such an interface is down. The
# names are those that Docker, Podman, LXD, libvirt, the common network plugins of Kubernetes and tunnels of Linux use.

VIRTUAL_NAMES = (
    r"(?:veth|docker|podman|br-|lxc|lxd|incusbr|virbr|vmnet|vnet|cni|cali|cilium|flannel|kube|nodelocal|eni[0-9a-f]{8,}"
    r"|tun|tap|vxlan|geneve|gre|sit|ip6tnl|wg|tailscale|dummy|ifb|vlan\.)"
)
_VIRTUAL = re.compile(VIRTUAL_NAMES)


def is_virtual(name: str) -> bool:
    """Return True if a name starts like the names of virtual interfaces."""
    return _VIRTUAL.match(name) is not None


# Lazy patterns: regular expressions that are compiled at first use.
#
# A record needs only a few of a decoder's patterns.

if TYPE_CHECKING:

    def lazy_pattern(text: AnyStr, flags: re.RegexFlag | int = 0) -> re.Pattern[AnyStr]:
        """Return a pattern that is compiled at its first use."""

else:

    class lazy_pattern:  # noqa: N801 - used as the function that it is for the type checker
        """A pattern that is compiled when one of its attributes is first used."""

        def __init__(self, text: AnyStr, flags: re.RegexFlag | int = 0) -> None:
            self._arguments = text, flags

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of a pattern
            """Return an attribute of the compiled pattern, and store it for later uses of this object."""
            if name.startswith("_"):
                raise AttributeError(name)
            found = getattr(re.compile(*self._arguments), name)  # `re` caches the compiled pattern
            setattr(self, name, found)
            return found
