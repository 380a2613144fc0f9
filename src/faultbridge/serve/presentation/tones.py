"""Tones: how urgent a status is to a reader; a page shows it as color, symbol and text."""

from __future__ import annotations

import re
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


ACTION_TEXTS: Mapping[str, str] = {
    "verify": "run diagnostics",
    "run_diagnostics": "run diagnostics",
    "reset_gpu": "reset the GPU",
    "reboot_node": "reboot the node",
    "replace_node": "replace the node",
    "contact_support": "contact support, because no automatic repair is known",
}
_FAILURES: Mapping[str, str] = {
    "CAPACITY": "no capacity",
    "THROTTLED": "the provider throttles the calls",
    "PERMISSION_DENIED": "permission denied",
    "NOT_FOUND": "not found",
    "CONFLICT": "conflict with another change",
    "TIMEOUT": "no result in time",
    "AMBIGUOUS": "the result of a call is not known",
    "VERIFY_FAILED": "verification failed",
    "PROVIDER_ERROR": "error of the provider",
}
_NOUNS: Mapping[str, str] = {
    "replace_node": "node replacement",
    "reboot_node": "node reboot",
    "reset_gpu": "GPU reset",
    "run_diagnostics": "diagnostics",
    "contact_support": "contact with support",
    "in_progress": "in progress",
    "not_applicable": "not applicable",
    "dry_run": "dry run",
}
_NAME = re.compile(rf"(?<![\w.`/-])({'|'.join(_NOUNS)})(?![\w`-])")


def words(name: object) -> str:
    """Return a name from a document as words, such as `out of service` for `out_of_service`."""
    return str(name).replace("_", " ")


def action_text(action: object) -> str:
    """Return a repair action or recommended action in words."""
    return ACTION_TEXTS.get(str(action), words(action))


def reason_text(reason: object) -> str:
    """Return a recorded text with the names in it replaced by words."""
    return _NAME.sub(lambda found: _NOUNS[found[1]], str(reason or ""))


def why_text(reason: object, failure: object, detail: object) -> str:
    """Return the reason of a case or of an entry in words, with its failure code, if it has one, in words too."""
    code = _FAILURES.get(str(failure))
    return f"{code}: {reason_text(detail)}" if code else reason_text(reason)


def detail_text(reason: object, failure: object, detail: object) -> str:
    """Return the reason of a case or of an entry in words, without its failure code."""
    return reason_text(detail if failure in _FAILURES else reason)
