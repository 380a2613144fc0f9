"""The interface of a decoder (name, example, `recognize`, `decode`), and the hints that it receives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import Clear, Fault, Observation

READ_WITH_MAPPINGS = frozenset(
    {
        "alertmanager",
        "grafana",
        "eks-node-condition",
        "node-problem-detector",
        "kubernetes-node",
        "gpud",
        "health-event",
        "nvsentinel",
        "slurm-node",
        "training-log",
    }
)
"""The sources whose terms a mapping translates into fault codes."""

LINE_SOURCES = frozenset({"kernel-log", "fabric-manager-log", "hyperpod-agent-log", "training-log"})
"""Sources whose lines can be read separately. A record of any other source is one document and is never split."""


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

    `decode_pieces(pieces, hints)` does the same for a body of any length that arrives in pieces. Only some formats
    support it.

    `can_be_silent` is True if healthy input can give no observation, as in a log or an event stream. Healthy input of
    any other format gives at least one health snapshot or counter sample.

        DECODER = Decoder("my-source", "log of my tool", "ERROR gpu 3", recognize, decode)
    """

    name: str
    summary: str
    example: str
    recognize: Callable[[bytes], bool]
    decode: Callable[[bytes, Hints], tuple[Observation, ...] | Decoded]
    decode_pieces: Callable[[Iterable[bytes], Hints], Decoded] | None = None
    can_be_silent: bool = False


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
