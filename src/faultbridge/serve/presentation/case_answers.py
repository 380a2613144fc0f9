"""Case answers: the questions of an operator about a case, from its documents, its waits and its steps.

The first sentence of each answer can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from msgspec import Struct

from faultbridge.decide.answers import action_text, detail_text, reason_text, sentence, words
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import CaseStatusData, FaultData, NoteData, ReplacementStepData
from faultbridge.model.policy import DEFAULT_RULE, INVENTORY_RULE
from faultbridge.model.values import replace
from faultbridge.record.entry_text import answer_text, component_text, duration_text, source_answers
from faultbridge.repair.registry.documents import Case, Cluster, Node, ShownCase
from faultbridge.repair.registry.views import CasePageSent
from faultbridge.serve.presentation.entry_rows import Entries, ReadEntry, entries_with, step_mark
from faultbridge.serve.presentation.grid import IN_SERVICE, natural_order
from faultbridge.serve.presentation.tones import Tone


class CaseFacts(Struct, frozen=True):
    """The documents of a case; `older` if earlier entries were not read.

    `failing` are the other nodes with a live case while a breaker delays the repair.
    """

    case: ShownCase
    node: Node
    cluster: Cluster
    entries: Sequence[ReadEntry[Any]]
    meaning: str = ""
    failing: Sequence[str] = ()
    pages: Sequence[CasePageSent] = ()
    older: bool = False

    @property
    def now(self) -> datetime:
        """The time for which the case is described: the current time of a live case, the end of a closed case."""
        return self.case.opened_at + timedelta(milliseconds=self.case.age_ms)


def short_name(operator: object) -> str:
    """Return the last part of an operator's name, which may be an ARN."""
    return str(operator or "-").rpartition("/")[2]


WAITING_TEXTS = {
    "wait": "waiting period of the rule",
    "admission": "the next run of admission",
    "approval": "approval by an operator",
    "window": "maintenance window",
    "budget": "a free repair slot",
    "breaker": "circuit breaker",
    "capacity": "capacity of the provider",
    "incident": "end of an incident",
    "pause": "end of a pause",
    "update": "end of an update of its group",
    "correlation": "comparison with the faults of other nodes",
    "isolation_budget": "room in the isolation budget",
    "idle": "end of the work on the node",
}


SHORTEST = timedelta(seconds=10)
"""Shorter waits are the normal time of processing."""


class Wait(Struct, frozen=True):
    """One wait of a case; `times` is the number of successive waits for the same reason in it."""

    start: datetime
    end: datetime | None
    waiting_for: str
    reason: str
    rule: str
    target: str
    times: int = 1

    @property
    def milliseconds(self) -> int | None:
        """The duration of the wait in milliseconds; None while it lasts."""
        return None if self.end is None else int((self.end - self.start).total_seconds() * 1000)


def case_waits(entries: Entries) -> tuple[Wait, ...]:
    """Return the waits of a case, oldest first, without waits that ended after less than `SHORTEST`.

    A wait ends with the next change of status, refusal or approval. Successive waits for the same reason are combined.
    """
    changes = sorted(filter(_is_boundary, entries), key=lambda one: one.at)
    ends = [*(one.at for one in changes[1:]), None]
    waits = (_wait(change, end) for change, end in zip(changes, ends, strict=False) if begins_wait(change))
    long = [one for one in waits if one.end is None or one.end - one.start >= SHORTEST]
    same = (list(found) for _, found in groupby(long, key=lambda one: (one.waiting_for, one.reason, one.rule)))
    return tuple(replace(found[0], end=found[-1].end, times=len(found)) for found in same)


def _is_boundary(entry: ReadEntry[Any]) -> bool:
    return isinstance(entry.data, CaseStatusData) or _is_refusal(entry)


def _is_refusal(entry: ReadEntry[Any]) -> bool:
    """Return whether an entry is a note that a repair was refused, or about a request for approval."""
    return isinstance(entry.data, NoteData) and entry.data.kind in {"refused", "approval"}


def begins_wait(entry: ReadEntry[Any]) -> bool:
    """Return whether an entry begins a wait: a waiting status, a refusal, or an approval request."""
    return _is_refusal(entry) or getattr(entry.data, "to", None) in {"open", "queued", "absorbed"}


def _wait(entry: ReadEntry[Any], end: datetime | None) -> Wait:
    data = entry.data
    is_note = isinstance(data, NoteData)
    return Wait(
        start=entry.at,
        end=end,
        waiting_for=waited_for(entry),
        reason=reason_text(data.text) if is_note else detail_text(data.reason, data.failure, data.detail),
        rule=str(data.facts.get("rule") or "") if is_note else data.rule,
        target=entry.target,
    )


def waited_for(entry: ReadEntry[Any]) -> str:
    """Return a text about what a case waits for, from the entry that begins the wait."""
    data = entry.data
    if isinstance(data, NoteData):
        found, state = data.facts.get("waiting_for"), data.stage
    else:
        found, state = getattr(data, "waiting_for", None), getattr(data, "to", "")
    waiting = str(found or _DEFAULTS.get(str(state), "admission"))
    return WAITING_TEXTS.get(waiting, waiting)


_DEFAULTS = {"open": "wait", "absorbed": "incident", "begun": "approval"}


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


def attempt_sentences(steps: Sequence[ReadEntry[ReplacementStepData]]) -> Iterator[str]:
    """Yield one sentence for each attempt, or for successive attempts with equal actions and results."""
    courses = [_course(number, of) for number, of in groupby(steps, key=lambda one: one.data.attempt)]
    for (action, course), same in groupby(courses, key=lambda one: (one[1], one[2])):
        numbers = [number for number, _, _ in same]
        several = f"Attempts {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"Attempt {numbers[0]}"
        yield f"{several} ({action}): {course}."


def _course(number: int, steps: Iterable[ReadEntry[ReplacementStepData]]) -> tuple[int, str, str]:
    listed = [one.data for one in steps][:MAX_STEPS]
    texts = [_step_text(one) for one in listed if one is listed[-1] or one.outcome != "begun"]
    return number, action_text(listed[-1].repair_action), "; ".join(filter(None, texts)) or "started"


def _step_text(step: ReplacementStepData) -> str:
    template = _STEP_TEXTS.get(f"{step.step} {step.outcome}")
    instances = {"old_instance": step.old_instance or "-", "new_instance": step.new_instance or "-"}
    text = f"{words(step.step)}: {words(step.outcome)}" if template is None else template.format_map(instances)
    return f"{text} ({reason_text(step.reason)})" if _failed(step) and step.reason else text


def _failed(step: ReplacementStepData) -> bool:
    return step_mark(step).tone is Tone.BAD


NOT_REPAIRED, NOT_YET = "Why was this not repaired?", "Why is this not repaired yet?"
DELAYED = "What delayed the repair?"
HAPPENED, DONE_SO_FAR, NOW = "What happened?", "What was done?", "What happens now?"
TAKEN, PLANNED, WAS_PLANNED = "Why this action?", "Which action is planned?", "Which action was planned?"
_WAITING = frozenset({"open", "queued", "absorbed"})
DONE = frozenset({"replaced", "repaired"})
"""The resolutions of cases that a repair closed."""

_REPORTS = (EntryType.FAULT_DETECTED, EntryType.FAULT_UPDATED)
_BEFORE_ACTION = frozenset({"drain", "collect", "capacity"})
"""Steps that change no instance."""

_REPAIRED = {
    "replace_node": "The node was replaced",
    "reboot_node": "The node was rebooted",
    "reset_gpu": "The GPU was reset",
    "verify": "The node was tested",
}


class Answer(Struct, frozen=True):
    """One question with sentences, and the nodes that keep a breaker open."""

    question: str
    sentences: tuple[str, ...]
    nodes: tuple[str, ...] = ()

    @property
    def is_refusal(self) -> bool:
        """Whether the answer states why a node was not repaired, or what delayed its repair."""
        return self.question in {NOT_REPAIRED, NOT_YET, DELAYED}


def case_answers(facts: CaseFacts) -> tuple[Answer, ...]:
    """Return the questions that apply to a case with their answers, in the order of reading.

    If an operator need do nothing, what happens now is said with that.
    """
    answer = facts.case.answer
    refusal = tuple(_refusal(facts))
    return (
        Answer(HAPPENED, tuple(_what_happened(facts))),
        *(one for one in refusal if one.question != DELAYED),
        Answer(_asked_about_action(facts), tuple(_why(facts))),
        Answer(DONE_SO_FAR, tuple(_what_was_done(facts))),
        *(one for one in refusal if one.question == DELAYED),
        *((Answer(NOW, (answer.system,)),) if answer.you else ()),
    )


def _asked_about_action(facts: CaseFacts) -> str:
    """Return the question about the repair action: why it was chosen, or which one is planned."""
    case = facts.case
    acted = any(one.data.step not in _BEFORE_ACTION for one in _steps(facts))
    if acted or case.status == "in_progress" or case.resolution in DONE or case.code == "operator.quarantine":
        return TAKEN
    return PLANNED if case.status in _WAITING else WAS_PLANNED


def _refusal(facts: CaseFacts) -> Iterator[Answer]:
    case = facts.case
    if case.status != "in_progress" and case.resolution not in DONE:
        question = NOT_YET if case.status in _WAITING else NOT_REPAIRED
        yield Answer(question, (case.answer.what,), nodes=tuple(sorted(facts.failing, key=natural_order)))
        return
    waited = (f"it waited for {one.waiting_for}: {one.reason}" for one in case_waits(facts.entries))
    failed = (
        f"attempt {one.data.attempt} failed: {_step_text(one.data)}" for one in _steps(facts) if _failed(one.data)
    )
    delays = tuple(sentence(one) for one in dict.fromkeys((*waited, *failed)))
    if delays:
        yield Answer(DELAYED, delays)


def _what_happened(facts: CaseFacts) -> Iterator[str]:
    case, node = facts.case, facts.case.node
    component = component_text(case.component)
    where = node if component in {"", "node"} else f"{component} of {node}"
    notes = (one.data for one in entries_with(facts.entries, NoteData) if one.data.kind == "operator")
    order = next((one for one in notes if "order" in one.facts), None)
    if case.code.startswith("operator.") and order:
        name, reason = order.facts["order"], order.facts["reason"] or "no reason"
        yield sentence(f'operator {short_name(order.operator)} ordered "{name}" for {node}: {reason}')
        return
    yield sentence(f"{facts.meaning or case.code} ({case.code}, {case.severity}) on {where}")
    if case.failure_mode != case.code:
        yield f"The failure mode is {case.failure_mode}."
    if case.relapse_of:
        yield f"The fault came back: case {case.relapse_of} repaired it before."
    known = [one.data for one in entries_with(facts.entries, FaultData, *_REPORTS)]
    faults = [one for one in known if one.failure_mode == case.failure_mode]
    if faults:
        reporters = sorted({name for fault in faults for name in fault.reporters})
        count = faults[-1].count or 1
        times = "once" if count == 1 else f"at least {count} times"
        yield f"Reported {times} by {', '.join(reporters)}: {faults[0].message or 'no message'}"
    detected = entries_with(facts.entries, FaultData, EntryType.FAULT_DETECTED)
    others = {str(one.data.failure_mode) for one in detected} - {case.failure_mode}
    if others:
        yield f"The same node also reported {', '.join(sorted(others))}."


def _why(facts: CaseFacts) -> Iterator[str]:
    case, action = facts.case, action_text(facts.case.action)
    if case.code == "operator.quarantine":
        yield "The order of the operator decides: keep the node out of service."
    elif case.rule == DEFAULT_RULE.name:
        yield f"The fault catalog decides: {action}. No rule of policy {case.policy} matches."
    elif case.rule == INVENTORY_RULE:
        yield f"Faultbridge verifies a new instance before it serves, whatever the rules of the policy are: {action}."
    else:
        yield f"Rule {case.rule} of policy {case.policy} applies to this fault: {action}."
    repair = action_text(case.repair_action)
    if repair != action and case.action != "contact_support":
        yield f"The current repair action is: {repair}."
    approval = case.approval
    if approval and approval.answer:
        asked = action_text(approval.repair_action)
        yield f"{short_name(approval.operator)} {approval.answer} the request of this case: {asked}."


def _what_was_done(facts: CaseFacts) -> Iterator[str]:
    case, steps = facts.case, _steps(facts)
    status, isolation = facts.node.status, facts.node.isolation
    cordoned = ", cordoned" if status in IN_SERVICE and isolation == "confirmed" else ""
    node = f"{words(status)}, {'in' if status in IN_SERVICE else 'out of'} service{cordoned}"
    if not steps and not case.resolution and not case.attempt:
        yield f"No repair was started; the node is {node}."
    else:
        yield _result(case, steps)
        yield from attempt_sentences(steps)
        asked = source_answers(steps)
        if asked:
            yield sentence(f"sources of capacity, in the order of the policy: {'; '.join(map(answer_text, asked))}")
        yield f"Node status now: {node}."
    if isolation in {"requested", "confirmed"}:
        yield f"New work is kept off the node (isolation {isolation})."


def _result(case: Case, steps: Sequence[ReadEntry[ReplacementStepData]]) -> str:
    resolution, after = case.resolution, duration_text(case.age_ms)
    if resolution in DONE:
        done = _REPAIRED.get(case.repair_action, "The node was repaired")
        attempts = f", in {case.attempt} attempts" if case.attempt > 1 else ""
        return f"{done} and verified within {after}{attempts}.{_swap(steps)}"
    if resolution:
        return f"No repair was completed. The case was closed after {after}: {words(resolution)}."
    if case.status == "in_progress":
        return f"A repair runs: {action_text(case.repair_action)}, attempt {case.attempt}.{_swap(steps)}"
    return f"A repair was tried and not completed; number of attempts: {case.attempt}."


def _swap(steps: Sequence[ReadEntry[ReplacementStepData]]) -> str:
    old = [one.data.old_instance for one in steps if one.data.old_instance]
    new = [one.data.new_instance for one in steps if one.data.new_instance]
    return f" Instance {old[0]} was replaced by {new[-1]}." if old and new and old[0] != new[-1] else ""


def _steps(facts: CaseFacts) -> tuple[ReadEntry[ReplacementStepData], ...]:
    return entries_with(facts.entries, ReplacementStepData)
