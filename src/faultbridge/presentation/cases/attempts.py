"""Attempts: sentences about what each repair attempt of a case did.

Successive attempts with the same repair action and the same results of their steps share one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from faultbridge.presentation.entry_rows import Document, step_mark
from faultbridge.presentation.tones import Tone
from faultbridge.presentation.wording import action_text, reason_text, words

MAX_STEPS = 40
_STEP_TEXTS = {
    "drain done": "jobs drained",
    "drain forced": "drained without waiting for its jobs",
    "drain not_applicable": "",
    "collect kept": "logs kept",
    "intent committed": "",
    "capacity none_left": "no free capacity",
    "capacity unproven": "no evidence of free capacity",
    "capacity spare_taken": "spare {new_instance} taken",
    "release_instance released": "instance {old_instance} released",
    "await_successor claimed": "instance {new_instance} started in its place",
    "repair_in_place begun": "repair of instance {new_instance} started",
    "repair_in_place back": "instance {new_instance} is back",
    "verify begun": "diagnostics run on instance {new_instance}",
    "verify passed": "diagnostics passed on instance {new_instance}",
    "verify no_result": "diagnostics on instance {new_instance} gave no result",
    "verify occupied": "no diagnostics on instance {new_instance}, because work runs there",
    "verify failed": "diagnostics failed on instance {new_instance}",
    "return_to_service done": "new work permitted again",
    "return_to_service not_applicable": "",
}
"""Text by step and outcome. An empty text is not shown. For other steps, the recorded names are shown."""


def attempt_sentences(steps: Sequence[Document]) -> Iterator[str]:
    """Yield one sentence for each attempt, or for successive attempts with equal actions and results.

    Of each attempt, only the first MAX_STEPS steps are described.
    """
    courses = [
        _course(number, of) for number, of in groupby(steps, key=lambda one: int(one["data"].get("attempt") or 0))
    ]
    for (action, course), same in groupby(courses, key=lambda one: (one[1], one[2])):
        numbers = [number for number, _, _ in same]
        several = f"Attempts {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"Attempt {numbers[0]}"
        yield f"{several} ({action}): {course}."


def failures(steps: Iterable[Document]) -> Iterator[tuple[int, str]]:
    """Yield the attempt number and the text of each failed step."""
    for step in (one["data"] for one in steps):
        if _failed(step):
            yield int(step.get("attempt") or 0), _step_text(step)


def _course(number: int, steps: Iterable[Document]) -> tuple[int, str, str]:
    listed = [one["data"] for one in steps][:MAX_STEPS]
    texts = [_step_text(one) for one in listed if one is listed[-1] or one.get("outcome") != "begun"]
    return number, action_text(listed[-1].get("repair_action")), "; ".join(filter(None, texts)) or "started"


def _step_text(step: Document) -> str:
    name = f"{step.get('step')} {step.get('outcome')}"
    known: dict[str, Any] = {"old_instance": "-", "new_instance": "-"} | {key: step[key] for key in step if step[key]}
    text = (
        _STEP_TEXTS[name].format_map(known)
        if name in _STEP_TEXTS
        else f"{words(step.get('step'))}: {words(known['outcome'])}"
    )
    return f"{text} ({reason_text(step['reason'])})" if _failed(step) and step.get("reason") else text


def _failed(step: Mapping[str, Any]) -> bool:
    return step_mark(step).tone is Tone.BAD
