"""What every decoder is made of: its name and example, how it recognizes a body, how it decodes one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from faultbridge.domain.faults import Clear, Fault, Observation, Snapshot, normalise_pci
from faultbridge.errors import Rejected

_Thing = TypeVar("_Thing")

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
"""The sources whose records mean what a mapping says."""

MAX_EVIDENCE = 4096
MAX_MESSAGE = 512
# More GPUs than any node has: who names more is not looking at one.
MAX_GPUS = 128
_PCI = re.compile(r"(?:PCI:)?(?:[0-9a-f]{1,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hints:
    """What the carrier of a record knows: it completes times that lack a year.

    `instance_type` says how many GPUs there should be, where the carrier knows it.
    `mappings` are a customer's own words for faults, by the name of the packaged mapping that each extends.
    """

    received_at: datetime | None = None
    node: str | None = None
    cluster: str | None = None
    mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    instance_type: str | None = None


NO_HINTS = Hints()


@dataclass(frozen=True, slots=True)
class Decoder:
    """One source format.

    `recognize` tells from a body's first bytes whether it is probably of this format; `decode` turns a whole body
    into observations, in the order of the input, or raises `Rejected` when no part of it has the format's framing.
    `decode_pieces`, where a format has it, does the same to a body of any length that comes in pieces.
    """

    name: str
    summary: str
    example: str
    recognize: Callable[[bytes], bool]
    decode: Callable[[bytes, Hints], tuple[Observation, ...]]
    decode_pieces: Callable[[Iterable[bytes], Hints], tuple[Observation, ...]] | None = None


def over(fault: Fault) -> Clear:
    """Turn a fault into the word that it is over."""
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


def judgements(observations: Iterable[Observation]) -> Iterator[Fault | Clear]:
    """Yield the faults and clears among observations, those that a health snapshot saw included."""
    for observation in observations:
        if isinstance(observation, Snapshot):
            yield from observation.present
        elif isinstance(observation, Fault | Clear):
            yield observation


def bounded(things: Iterable[_Thing], most: int = MAX_GPUS) -> list[_Thing]:
    """Return what one look names; more of it than a node can have is `Rejected` before it fills the memory."""
    found = list(islice(things, most + 1))
    if len(found) > most:
        raise Rejected("too_many_devices", f"more than {most} devices of one node")
    return found


def cut(text: str, most: int = MAX_MESSAGE) -> str:
    """Bound a text to `most` bytes of UTF-8; what is left out is marked with an ellipsis."""
    if len(text) * 4 <= most or len(encoded := text.encode("utf-8", "replace")) <= most:
        return text
    return encoded[: most - 3].decode("utf-8", "ignore") + "\u2026"


def pci_of(text: str) -> str | None:
    """Return a PCI address in its one spelling, or None where a text is none."""
    return normalise_pci(text) if _PCI.fullmatch(text) else None


def evidence(text: str) -> str:
    """Bound the raw text behind a fault to what may travel with it (4 KB)."""
    return cut(text, MAX_EVIDENCE)
