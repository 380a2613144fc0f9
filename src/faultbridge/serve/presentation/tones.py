"""Tones: how urgent a status is to a reader; a page shows it as color, symbol and text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class Tone(StrEnum):
    """How urgent a status is: good, to be watched, bad, work in progress, waiting, or no longer relevant."""

    GOOD = "good"
    WATCH = "watch"
    BAD = "bad"
    WORK = "work"
    WAIT = "wait"
    OFF = "off"


SYMBOLS: Mapping[Tone, str] = {
    Tone.GOOD: "●",
    Tone.WATCH: "▲",
    Tone.BAD: "✖",
    Tone.WORK: "◆",
    Tone.WAIT: "◷",
    Tone.OFF: "○",
}


class Mark(Struct, frozen=True):
    """A status for readers: its text and its tone (urgency)."""

    text: str
    tone: Tone

    @property
    def symbol(self) -> str:
        """The symbol of the tone, so that no reader depends on color."""
        return SYMBOLS[self.tone]


NODE: Mapping[str, Tone] = {
    "healthy": Tone.GOOD,
    "degraded": Tone.WATCH,
    "quarantined": Tone.BAD,
    "failed": Tone.BAD,
    "draining": Tone.WORK,
    "repairing": Tone.WORK,
    "replacing": Tone.WORK,
    "provisioning": Tone.WORK,
    "validating": Tone.WORK,
    "no_data": Tone.OFF,
    "retired": Tone.OFF,
}
CASE: Mapping[str, Tone] = {
    "open": Tone.WATCH,
    "queued": Tone.WAIT,
    "in_progress": Tone.WORK,
    "escalated": Tone.BAD,
    "absorbed": Tone.WAIT,
    "resolved": Tone.GOOD,
    "expired": Tone.OFF,
}
CLUSTER: Mapping[str, Tone] = {
    "healthy": Tone.GOOD,
    "degraded": Tone.WATCH,
    "recovering": Tone.WORK,
    "critical": Tone.BAD,
    "no_data": Tone.WATCH,
    "no_nodes": Tone.OFF,
}
SEVERITY: Mapping[str, Tone] = {"info": Tone.OFF, "warning": Tone.WATCH, "error": Tone.BAD, "fatal": Tone.BAD}
INCIDENT: Mapping[str, Tone] = {"open": Tone.BAD, "recovering": Tone.WORK, "expired": Tone.WAIT, "closed": Tone.GOOD}
JOB: Mapping[str, Tone] = {
    "running": Tone.GOOD,
    "stalled": Tone.WATCH,
    "waiting": Tone.WAIT,
    "resumable": Tone.WORK,
    "ended": Tone.OFF,
    "succeeded": Tone.GOOD,
    "failed": Tone.BAD,
    "cancelled": Tone.OFF,
    "unreported": Tone.WATCH,
}
VERDICT: Mapping[str, Tone] = {"RESTART": Tone.GOOD, "RESTART_WITHOUT": Tone.WATCH, "STOP": Tone.BAD}
BREAKER: Mapping[str, Tone] = {"open": Tone.BAD, "half_open": Tone.WATCH, "closed": Tone.GOOD}


def mark(text: object, tones: Mapping[str, Tone]) -> Mark:
    """Return a status as a mark (text with a tone); a missing or unknown status has the tone WATCH."""
    name = str(text) if text else "unknown"
    return Mark(name.replace("_", " "), tones.get(name, Tone.WATCH))
