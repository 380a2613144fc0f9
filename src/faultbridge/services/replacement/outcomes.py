"""What a step answers. The state machine chooses by these words, and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Where an attempt goes after a step.

    `done` goes on, `repair` with the instance that is there, `diagnose` without anything being done to it, `follow`
    with what the provider does to it, `gone` with a seat that others emptied; `waiting` is answered later under the
    task token, `stopped` put the case back into the queue, `failed` handed it to a person, `superseded` means that
    somebody else has the case now.
    """

    DONE = "done"
    DIAGNOSE = "diagnose"
    REPAIR = "repair"
    FOLLOW = "follow"
    GONE = "gone"
    WAITING = "waiting"
    STOPPED = "stopped"
    FAILED = "failed"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one call of one step, with a line for people."""

    outcome: Outcome
    reason: str = ""

    def data(self, step: str) -> dict[str, str]:
        """Render the answer as the state machine and the console see it."""
        return {"step": step, "outcome": self.outcome.value, "reason": self.reason}


class Superseded(Exception):  # noqa: N818 - the word of the design
    """The attempt that called is not the live one any more."""


class Settled(Exception):  # noqa: N818 - a fact, no error
    """The step has its outcome already; whoever calls again gets the same."""

    def __init__(self, answer: Answer) -> None:
        """Keep the outcome."""
        super().__init__(answer.outcome.value)
        self.answer = answer
