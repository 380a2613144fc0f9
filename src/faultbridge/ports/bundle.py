"""What keeps the evidence on an instance before it is destroyed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class BundleState(StrEnum):
    """How a log bundle stands."""

    RUNNING = "running"
    KEPT = "kept"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A log bundle of an instance: how it stands, where it lies or is to lie (an S3 URI), and why it failed."""

    state: BundleState
    place: str = ""
    reason: str = ""


class Collector(Protocol):
    """What packs the logs of an instance and keeps them."""

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Begin a bundle, or tell how the one with this token stands; a token is collected once."""
        ...
