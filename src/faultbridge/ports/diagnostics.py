"""Ports that verify an instance with diagnostics, and collect its logs before it is destroyed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Verdict(StrEnum):
    """The result of a verification.

    - `occupied`: another process uses the GPUs, so no diagnostics started. This shows nothing about the hardware.
    - `unknown`: there is no usable report.
    """

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    OCCUPIED = "occupied"


@dataclass(frozen=True, slots=True)
class Verification:
    """The status of a verification: the verdict, findings as lines of text, and the raw report.

    `findings` are about the tests, such as one line per failed test. `gpus` is the number of GPUs in the report, or
    None if the report names none. `level` is the diagnostics level that ran, from 1 to 5. data/coverage.json lists the
    faults that a level proves fixed. The default 0 means that no level is known, so the verification proves no fault
    fixed.
    """

    verdict: Verdict
    findings: tuple[str, ...] = ()
    report: bytes = b""
    gpus: int | None = None
    level: int = 0


class Verifier(Protocol):
    """Runs diagnostics on an instance to verify that it is healthy."""

    def start(self, instance_id: str, token: str, level: int | None = None, *, prove_idle: bool = False) -> str:
        """Start a verification and return its operation id; a token starts at most one verification.

        If another process uses the GPUs, no diagnostics start, and the verdict is `occupied`. With `prove_idle`, this
        is also so if it is unknown whether a process uses them.

        `level` is the diagnostics level from 1 to 5. None means the default level of the verifier. Level 5 requires
        tests between two instances. A verifier without these tests runs level 4 instead. Raises Unverifiable if it can
        never verify instances of this type at the level.
        """

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Return the status of a verification; `level` is the level at which it was started."""


class BundleState(StrEnum):
    """The state of a log bundle of an instance. `kept` means that the bundle is stored."""

    RUNNING = "running"
    KEPT = "kept"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A log bundle of an instance: its state, its S3 URI, and the reason if it failed."""

    state: BundleState
    place: str = ""
    reason: str = ""


class Collector(Protocol):
    """Collects the logs of an instance and stores them as one bundle."""

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Start to collect a log bundle, or return the state of the bundle with this token.

        A token starts at most one bundle.
        """
