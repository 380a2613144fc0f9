"""The interface of a decoder (name, example, `recognize`, `decode`), its hints, and the builders of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from faultbridge.decode.frames.line import Item
from faultbridge.model.faults import ELLIPSIS, Clear, Component, Fault, Observation, Snapshot


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
    /,
    **attributes: str | None,
) -> Fault:
    """Return a fault within the limits of an event; without `raw`, the message is the evidence too."""
    shown = evidence(message if raw is None else raw)
    return Fault(source, code, component, truncate(message), at, shown, attributes_of(**attributes), node=node)


Judged = tuple[str, Component, Fault | None]
"""A fault code that a check can detect, the component that it could read, and the fault, or None if it is healthy."""


def snapshot_of(
    source: str,
    judged: Iterable[Judged],
    at: datetime | None = None,
    node: str | None = None,
    devices: tuple[Component, ...] = (),
    part: str = "",
) -> Snapshot:
    """Return the health snapshot of what was judged: it covers every code on the components that could be read."""
    covers: dict[str, dict[Component, None]] = {}
    present: list[Fault] = []
    for code, component, fault in judged:
        covers.setdefault(code, {})[component] = None
        present += [fault] if fault is not None else []
    covered = {code: tuple(components) for code, components in covers.items()}
    return Snapshot(source, covered, tuple(present), at, node=node, devices=devices, part=part)


def attributes_of(**values: str | None) -> dict[str, str]:
    """Return the values that are not None or empty as attributes of a fault, each cut to 512 characters."""
    return {name: value[:512] for name, value in values.items() if value}


MAX_EVIDENCE, MAX_MESSAGE = 4096, 512


def truncate(message: str, limit: int = MAX_MESSAGE) -> str:
    """Return a text cut to at most `limit` bytes of UTF-8. A text that was cut ends with an ellipsis."""
    if len(message) * 4 <= limit or len(encoded := message.encode("utf-8", "replace")) <= limit:
        return message
    return encoded[: limit - 3].decode("utf-8", "ignore") + ELLIPSIS


def evidence(raw: str) -> str:
    """Return the raw text behind a fault, cut to the 4 KiB of evidence that an event can contain."""
    return truncate(raw, MAX_EVIDENCE)
