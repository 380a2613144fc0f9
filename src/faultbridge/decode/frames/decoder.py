"""The interface of a decoder (name, example, `recognize`, `decode`), and the hints that it receives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, AnyStr, TypeVar

from faultbridge.decode.frames.line import Item
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import ELLIPSIS, Clear, Component, Fault, Observation, normalize_pci


@dataclass(frozen=True, slots=True)
class Hints:
    """Facts about a record that its sender or transport provides. The bytes of the record may lack them.

    `received_at` gives the year of a timestamp without a year. `instance_type` gives the expected number of GPUs and
    rates of EFA devices. `mappings` contains the customer's extensions, by the name of the packaged mapping that each
    one extends.
    """

    received_at: datetime | None = None
    node: str | None = None
    cluster: str | None = None
    mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    instance_type: str | None = None


NO_HINTS = Hints()


@dataclass(frozen=True, slots=True)
class Decoded:
    """The observations in a record, and how much of the record the decoder did not understand.

    `unparsed` is the number of lines or documents that the decoder did not understand, although they are in the format
    of the source or resemble one of its faults. `notes` are sentences about parts of the input that were skipped.
    """

    observations: tuple[Observation, ...]
    unparsed: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoder:
    """The decoder of one source format.

    `summary` and `example` document the format for `faultbridge sources`.

    `recognize(head)` returns whether the first bytes of a body are probably in this format.

    `decode(body, hints)` returns the observations. It returns them as `Decoded` if it counts what it did not
    understand. It raises `Rejected` for a body in another format.

    `decode_lines(lines, hints)` does the same for the lines of a log, after their frames were removed.

    `decode_pieces(pieces, hints)` does the same for a body of any length that arrives in pieces. Only some formats
    support it.

    `decode_plain(body, hints)` returns the result for a record of the most frequent form, in which no frame and no
    unusual character occurs, or None for any other record.

    `can_be_silent` is True if healthy input can give no observation, as in a log or an event stream. Healthy input of
    any other format gives at least one health snapshot or counter sample.

    `of_any` is True if lines of any program can be of this source, so that a body is of it only if no other one fits.
    """

    name: str
    summary: str
    example: str
    recognize: Callable[[bytes], bool]
    decode: Callable[[bytes, Hints], tuple[Observation, ...] | Decoded]
    decode_lines: Callable[[Iterable[Item], Hints], Decoded] | None = None
    decode_pieces: Callable[[Iterable[bytes], Hints], Decoded] | None = None
    decode_plain: Callable[[bytes, Hints], Decoded | None] | None = None
    can_be_silent: bool = False
    of_any: bool = False


def to_clear(fault: Fault) -> Clear:
    """Return a clear with the same fields as a fault, except severity, action and count."""
    return Clear(
        source=fault.source,
        code=fault.code,
        component=fault.component,
        message=fault.message,
        observed_at=fault.observed_at,
        evidence=fault.evidence,
        attributes=fault.attributes,
        node=fault.node,
    )


def fault_of(
    source: str,
    code: str,
    component: Component,
    message: str,
    raw: str | None = None,
    at: datetime | None = None,
    node: str | None = None,
    **attributes: str | None,
) -> Fault:
    """Return a fault within the limits of an event; without `raw`, the message is the evidence too."""
    shown = evidence(message if raw is None else raw)
    return Fault(source, code, component, truncate(message), at, shown, attributes_of(**attributes), node=node)


_Item = TypeVar("_Item")

EMPTY: Mapping[str, Any] = {}
MAX_TEXT = 4096
MAX_EVIDENCE = 4096
MAX_MESSAGE = 512
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


def attributes_of(**values: str | None) -> dict[str, str]:
    """Return the values that are not None or empty as attributes of a fault, each cut to 512 characters."""
    return {name: value[:512] for name, value in values.items() if value}


def bounded(items: Iterable[_Item], limit: int = MAX_GPUS) -> list[_Item]:
    """Return the items as a list; raises Rejected for more than `limit` items.

    At most one item more than `limit` is read, so that too many items do not use up the memory.
    """
    found = list(islice(items, limit + 1))
    if len(found) > limit:
        raise Rejected("too_many_devices", f"more than {limit} devices of one node; send one node's devices at a time")
    return found


def truncate(message: str, limit: int = MAX_MESSAGE) -> str:
    """Return a text cut to at most `limit` bytes of UTF-8. A text that was cut ends with an ellipsis."""
    if len(message) * 4 <= limit or len(encoded := message.encode("utf-8", "replace")) <= limit:
        return message
    return encoded[: limit - 3].decode("utf-8", "ignore") + ELLIPSIS


def evidence(raw: str) -> str:
    """Return the raw text behind a fault, cut to the 4 KiB of evidence that an event can contain."""
    return truncate(raw, MAX_EVIDENCE)


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
