"""Case answers: the questions of an operator about a case; the first sentence of each answer can be read alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import FaultData, NoteData, ReplacementStepData
from faultbridge.model.values import replace
from faultbridge.record.entry_text import answer_text, component_text, duration_text, source_answers
from faultbridge.repair.registry.documents import Case
from faultbridge.serve.presentation.case_values import CaseFacts, Values, case_values, case_waits, short_name
from faultbridge.serve.presentation.entry_rows import ReadEntry, entries_with, step_mark
from faultbridge.serve.presentation.grid import IN_SERVICE, natural_order
from faultbridge.serve.presentation.tones import Tone, action_text, reason_text, words

# Texts by the situation of a case: its status and, for some, a detail. `queued`: what it waits for, `retry` or `again`
# after an attempt. `open`: `correlation`. `resolved`: the resolution. `escalated`: `denied`, `relapse` or `operator`.


class Advice(Struct, frozen=True):
    """What happens next, what an operator should do, and the commands and the runbook for this."""

    next: str
    action: str
    commands: tuple[str, ...] = ()
    runbook: str = ""


NEXT: Mapping[str, str] = {
    "open": "The repair is considered at {not_before}, unless the fault ends before.",
    "open correlation": "An urgent page follows within about a minute, unless an incident explains the fault.",
    "queued": "The case is in the repair queue.",
    "queued wait": "The repair may start at {not_before}, unless the fault ends before.",
    "queued retry": "The next attempt starts {next_try}, within the limits of the policy.",
    "queued again": "The next attempt starts {next_try}, within the limits of the policy.",
    "queued approval": "The repair starts when an operator approves it.\nWithout an answer until {answer_by}, the case "
    "is escalated: no repair starts, and an operator is paged.",
    "queued window": "The repair starts in the next maintenance window.",
    "queued budget": "The repair starts when the limit permits another one.",
    "queued breaker": "{breaker_end}\n{breaker_then}",
    "queued isolation_budget": "The node keeps its work. It is taken out of service when fewer nodes are out.",
    "queued capacity": "Faultbridge tries again {next_try}.\nThe node keeps its instance until capacity is free.",
    "queued incident": "The repair starts when the incident closes.",
    "queued update": "The repair starts when the update of the group and its grace period are over, or at its"
    " deadline.\n"
    "If the update replaces the instance, the case closes without a repair.",
    "queued idle": "The node is verified or repaired when its running work has ended; nothing is evicted.\n"
    "If the fault ends before, the case closes without diagnostics.",
    "queued pause": "The repair starts when an operator resumes repairs, or when the exclusion of the node ends.",
    "in_progress": "Attempt {attempt} runs: {repair_action}. The node returns to service only after verification.",
    "absorbed": "The case continues when the incident closes: a node that is still faulty is then repaired.",
    "escalated": "Nothing happens automatically: the node stays {node_status} until an operator acts.",
    "resolved": "Nothing: the case is closed.",
    "resolved replaced": "Nothing: another verified instance serves. If the fault comes back during the probation, "
    "an operator is paged: the replacement is not repeated.",
    "resolved repaired": "Nothing: the node was verified and serves. If the fault comes back during the probation, "
    "the next stronger action of the rule applies; without one, an operator is paged.",
    "resolved recovered": "Nothing: the fault ended before a repair started.",
    "resolved dry_run": "Nothing: the mode of the cluster was dry_run, so the repair was only recorded.",
    "expired": "Nothing: the case expired.",
    "unknown": "The status of this case is not known to this version of the console. See the entries below.",
}

_SHOW = "faultbridge case show {case}"
_NODE = "faultbridge node show {node} --cluster {cluster}"
_RETURN = "faultbridge node return {node} --cluster {cluster}"
_REPLACE = "faultbridge node replace {node} --cluster {cluster}"

ACTIONS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "none": ("Nothing.", (), ""),
    "queued approval": (
        "Approve or deny the repair.",
        (
            "faultbridge case approve {case} --repair-action {action_name}",
            "faultbridge case deny {case} --repair-action {action_name}",
        ),
        "approval",
    ),
    "queued breaker": (
        "Check whether the nodes share one cause. If they do, fix it: the breaker then closes by itself. If they do "
        "not, close the breaker.",
        ("faultbridge breaker --cluster {cluster}", "faultbridge breaker --cluster {cluster} --close"),
        "many-pages",
    ),
    "queued isolation_budget": (
        "Check whether the nodes that are out of service share one cause, and return those that are fine. "
        "An order to quarantine or replace the node does not wait for the budget.",
        ("faultbridge stuck --cluster {cluster}", "faultbridge node quarantine {node} --cluster {cluster}"),
        "many-pages",
    ),
    "queued capacity": (
        "Nothing, if you can wait. Otherwise provide capacity, or fix the node and cancel the case.",
        ("faultbridge case cancel {case}",),
        "reason-capacity",
    ),
    "queued incident": ("Fix the shared cause. The repair continues by itself.", (), "incident"),
    "queued pause": (
        "Resume repairs, or end the exclusion of the node, when you are ready. `faultbridge stuck` names the command.",
        ("faultbridge resume --cluster {cluster}", "faultbridge stuck --cluster {cluster}"),
        "",
    ),
    "absorbed": (
        "Fix the shared cause: the incident then closes by itself. If there is none, close it.",
        ("faultbridge incident show {incident}", "faultbridge incident close {incident}"),
        "incident",
    ),
    "escalated": (
        "Find the cause, fix or replace the node, then return it to service.",
        (_SHOW, _RETURN, _REPLACE),
        "stuck-case",
    ),
    "escalated denied": (
        "When the repair may start, order it. Or fix the node yourself and return it to service.",
        (_REPLACE, _RETURN),
        "stuck-case",
    ),
    "escalated operator": (
        "Find the cause, then return the node to service or order its replacement.",
        (_RETURN, _REPLACE),
        "stuck-case",
    ),
    "escalated relapse": (
        "Look for a cause outside the instance: the slot, its cables, power, cooling, the workload. Then order another "
        "replacement, or return the node to service.",
        (_REPLACE, _RETURN),
        "stuck-case",
    ),
    "expired": ("Check the node before you use it.", (_NODE,), "stuck-case"),
    "unknown": ("Read the entries of the case.", (_SHOW,), ""),
}
"""The action, the commands and the runbook; a key that is missing needs no action (`none`)."""

WITHOUT_REPAIR: Mapping[str, str] = {
    "open": "The waiting period of rule {rule} ends at {not_before}.",
    "open correlation": "The fault needs an operator: {reason}.\nThe faults of other nodes are compared first: if they "
    "share a cause, only its incident sends an urgent page.",
    "queued": "The repair waits: {reason}.",
    "queued wait": "The waiting period of rule {rule} ends at {not_before}.",
    "queued approval": "Rule {rule} requires that an operator approves it first, and no operator has answered since "
    "{asked_at}: {repair_action}.",
    "queued unproven": "An operator must approve it first: {reason}.\nNo operator has answered since {asked_at}: "
    "{repair_action}.",
    "queued window": "Rule {rule} permits repairs only in its maintenance window: {reason}.",
    "queued retry": "Attempt {attempt} failed: {reason}.",
    "queued again": "Attempt {attempt} has ended, and the case is in the repair queue again: {reason}.",
    "queued budget": "{reason}. Repairs that hold a slot of the cluster: {slots}.",
    "queued breaker": "Too many nodes failed at once, so a circuit breaker stopped repairs.\nIt is {breakers}.\n"
    "Replacing many nodes does not fix a cause that they share.",
    "queued isolation_budget": "So many nodes are out of service that no other may follow for now: {reason}.",
    "queued capacity": "The provider has no capacity for a successor: {detail}.\nReleasing the instance now would "
    "leave the node without one.",
    "queued incident": "The node is part of incident {incident}: {reason}.",
    "queued update": "The owner of the group updates it: {reason}.",
    "queued idle": "The repair waits until the node is idle: {reason}.",
    "queued pause": "An operator ordered that no repair starts: {reason}.",
    "absorbed": "The node is part of an incident: {incident_reason}.\nReplacing a node does not fix a shared cause, so "
    "no repair starts while incident {incident} is open.",
    "escalated": "The repair stopped: {reason}. Faultbridge does not try again by itself.",
    "escalated denied": "Operator {operator} denied it ({repair_action}): {denial}.",
    "escalated operator": "An operator keeps the node out of service. Faultbridge repairs it only when an operator "
    "orders it.",
    "escalated relapse": "The same fault came back during the probation after its repair in case {relapse_of}, and a "
    "repair that did not last is not repeated automatically.\nThe recorded reason: {reason}.",
    "expired": "The case expired without a repair: {reason}.",
    "dry_run": "The mode of the cluster is {mode}: the repair was recorded and not carried out.",
    "recovered": "No repair was needed: {reason}.",
    "cancelled": "An operator canceled the repair: {reason}.",
    "by_operator": "An operator closed the case: {reason}.",
    "external": "Another system replaced the instance: {reason}.",
    "retired": "The node was removed from the cluster: {reason}.",
}
"""Why a case has no repair, by its resolution, or by its situation while it is not resolved."""


def situation(case: Case) -> str:
    """Return the key of a case in the tables of this module: its status, with a detail for some statuses."""
    status = case.status
    detail = case.waiting_for if status == "queued" else case.resolution if status == "resolved" else None
    if status == "queued" and case.attempt:
        # A failed attempt is followed by a wait; an order or a stronger action leads to the queue at once.
        detail = {"wait": "retry", "admission": "again"}.get(str(detail), detail)
    if status == "open" and case.waiting_for == "correlation":
        detail = "correlation"
    if status == "escalated":
        detail = _stopped_by(case)
    return f"{status} {detail}" if detail else status


def _stopped_by(case: Case) -> str | None:
    if case.approval and case.approval.answer == "denied":
        return "denied"
    if case.code == "operator.quarantine":
        return "operator"
    return "relapse" if case.relapse_of and not case.attempt else None


def advice_for(case: Case) -> Advice:
    """Return what happens next, and what an operator should do, in the situation of a case."""
    key, status = situation(case), case.status
    following = NEXT.get(key) or NEXT.get(status) or NEXT["unknown"]
    known = next((one for one in (key, status) if one in ACTIONS), "none" if status in NEXT else "unknown")
    return Advice(following, *ACTIONS[known])


def without_repair(case: Case) -> str:
    """Return a template that states why a case has no repair; "" if it was repaired or is in repair."""
    exact = case.resolution or situation(case)
    if exact == "queued approval" and case.approval and not case.approval.by_rule:
        exact = "queued unproven"  # no rule asks: the attempt itself did, because it found no evidence of capacity
    return WITHOUT_REPAIR.get(exact) or WITHOUT_REPAIR.get(case.status, "")


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
HAPPENED, DONE_SO_FAR, NOW, ACTION = (
    "What happened?", "What was done?", "What happens now?", "What should you do?"
)  # fmt: skip
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
    """One question with sentences, commands, a runbook and the nodes that keep a breaker open."""

    question: str
    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()
    runbook: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def is_refusal(self) -> bool:
        """Whether the answer states why a node was not repaired, or what delayed its repair."""
        return self.question in {NOT_REPAIRED, NOT_YET, DELAYED}

    @property
    def needed(self) -> bool:
        """Whether the answer asks an operator to do something."""
        return self.question == ACTION and not self.sentences[0].startswith("Nothing")


def todo_first(answers: Sequence[Answer]) -> tuple[Answer | None, tuple[Answer, ...]]:
    """Return what an operator should do, and the other answers; if nothing is to be done, say what happens now."""
    todo = next((one for one in answers if one.question == ACTION), None)
    rest = tuple(one for one in answers if one is not todo)
    now = next((one for one in rest if one.question == NOW), None)
    if todo is None or now is None or todo.sentences != ("Nothing.",):
        return todo, rest
    first, more = now.sentences[0], now.sentences[1:]
    rest = tuple(one for one in rest if one is not now or more)
    return replace(todo, sentences=(first if first.startswith("Nothing") else f"Nothing. {first}",)), rest


def case_answers(facts: CaseFacts) -> tuple[Answer, ...]:
    """Return the questions that apply to a case with their answers, in the order of reading."""
    advice, values = advice_for(facts.case), case_values(facts)
    refusal = tuple(_refusal(facts, values))
    return (
        Answer(HAPPENED, tuple(_what_happened(facts))),
        *(one for one in refusal if one.question != DELAYED),
        Answer(_asked_about_action(facts), tuple(_why(facts))),
        Answer(DONE_SO_FAR, tuple(_what_was_done(facts))),
        *(one for one in refusal if one.question == DELAYED),
        Answer(NOW, _sentences(advice.next, values)),
        Answer(
            ACTION,
            (advice.action.format_map(values),),
            tuple(command.format_map(values) for command in advice.commands),
            advice.runbook,
        ),
    )


def _asked_about_action(facts: CaseFacts) -> str:
    """Return the question about the repair action: why it was chosen, or which one is planned."""
    case = facts.case
    acted = any(one.data.step not in _BEFORE_ACTION for one in _steps(facts))
    if acted or case.status == "in_progress" or case.resolution in DONE or case.code == "operator.quarantine":
        return TAKEN
    return PLANNED if case.status in _WAITING else WAS_PLANNED


def _refusal(facts: CaseFacts, values: Values) -> Iterator[Answer]:
    reason = without_repair(facts.case)
    if reason:
        question = NOT_YET if facts.case.status in _WAITING else NOT_REPAIRED
        sentences = _sentences(reason, values)
        yield Answer(question, sentences, nodes=tuple(sorted(facts.failing, key=natural_order)))
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
    elif case.rule == "catalog":
        yield f"The fault catalog decides: {action}. No rule of policy {case.policy} matches."
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


def _sentences(template: str, values: Values) -> tuple[str, ...]:
    return tuple(sentence(line.format_map(values)) for line in template.split("\n"))


def sentence(text: str) -> str:
    """Return a text as a sentence: it starts with a capital letter and ends with a period."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
