"""Case answers: the questions of an operator about a case, with their answers.

The questions are: what happened, why it was not repaired, why this action, what was done, what happens now, and what to
do. The first sentence of each answer can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultbridge.dataclass import dataclass
from faultbridge.ledger.entry_text import answer_text, component_text, duration_text, source_answers
from faultbridge.presentation.cases.advice import advice_for, without_repair
from faultbridge.presentation.cases.attempts import attempt_sentences, failures
from faultbridge.presentation.cases.case_facts import CaseFacts
from faultbridge.presentation.cases.case_values import Values, case_values, short_name
from faultbridge.presentation.cases.waits import case_waits
from faultbridge.presentation.entry_rows import Document
from faultbridge.presentation.grid import IN_SERVICE, natural_order
from faultbridge.presentation.history import DETECTED, NOTE, STEP, UPDATED, of_type
from faultbridge.presentation.wording import action_text, words

NOT_REPAIRED, NOT_YET = "Why was this not repaired?", "Why is this not repaired yet?"
DELAYED = "What delayed the repair?"
TAKEN, PLANNED, WAS_PLANNED = "Why this action?", "Which action is planned?", "Which action was planned?"
_WAITING = frozenset({"open", "queued", "absorbed"})
DONE = frozenset({"replaced", "repaired"})
"""The resolutions of cases that a repair closed."""

_BEFORE_ACTION = frozenset({"drain", "collect", "capacity"})
"""Steps that change no instance."""

_REPAIRED = {
    "replace_node": "The node was replaced",
    "reboot_node": "The node was rebooted",
    "reset_gpu": "The GPU was reset",
    "verify": "The node was tested",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One question and its answer: sentences, commands that an operator may run, and a runbook.

    `nodes` are the other nodes with a live case, if an open breaker delays the repair.
    """

    question: str
    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()
    runbook: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def is_refusal(self) -> bool:
        """Whether the answer states why a node was not repaired, or what delayed its repair."""
        return self.question in {NOT_REPAIRED, NOT_YET, DELAYED}


def case_answers(facts: CaseFacts) -> tuple[Answer, ...]:
    """Return the questions about a case with their answers, in the order in which an operator reads them.

    The question why a case was not repaired, or what delayed its repair, is included only if it applies.
    """
    advice, values = advice_for(facts.case), case_values(facts)
    refusal = tuple(_refusal(facts, values))
    return (
        Answer("What happened?", tuple(_what_happened(facts))),
        *(one for one in refusal if one.question != DELAYED),
        Answer(_asked_about_action(facts), tuple(_why(facts))),
        Answer("What was done?", tuple(_what_was_done(facts))),
        *(one for one in refusal if one.question == DELAYED),
        Answer("What happens now?", _sentences(advice.next, values)),
        Answer(
            "What should you do?",
            (advice.action.format_map(values),),
            tuple(command.format_map(values) for command in advice.commands),
            advice.runbook,
        ),
    )


def _asked_about_action(facts: CaseFacts) -> str:
    """Return the question about the repair action of a case, which depends on how far the repair is.

    If the action was taken or runs, or if an operator ordered the quarantine, the question is why this action was
    chosen. Otherwise, the question is which action is planned, or was planned.
    """
    case = facts.case
    acted = any(one["data"].get("step") not in _BEFORE_ACTION for one in of_type(facts.entries, STEP))
    if acted or case["status"] == "in_progress" or case["resolution"] in DONE or case["code"] == "operator.quarantine":
        return TAKEN
    return PLANNED if case["status"] in _WAITING else WAS_PLANNED


def _refusal(facts: CaseFacts, values: Values) -> Iterator[Answer]:
    reason = without_repair(facts.case)
    if reason:
        question = NOT_YET if facts.case["status"] in _WAITING else NOT_REPAIRED
        sentences = _sentences(reason, values)
        yield Answer(question, sentences, nodes=tuple(sorted(facts.failing, key=natural_order)))
        return
    waited = (f"it waited for {one.waiting_for}: {one.reason}" for one in case_waits(facts.entries))
    failed = (f"attempt {number} failed: {text}" for number, text in failures(of_type(facts.entries, STEP)))
    delays = tuple(sentence(one) for one in dict.fromkeys((*waited, *failed)))
    if delays:
        yield Answer(DELAYED, delays)


def _what_happened(facts: CaseFacts) -> Iterator[str]:
    case, node = facts.case, str(facts.case["node"])
    component = component_text(case["component"])
    where = node if component in {"", "node"} else f"{component} of {node}"
    order = next((one["data"] for one in of_type(facts.entries, NOTE) if one["data"].get("kind") == "operator"), None)
    if str(case["code"]).startswith("operator.") and order:
        name, _, reason = str(order.get("text") or "").partition(": ")
        yield sentence(
            f'operator {short_name(order.get("operator"))} ordered "{name}" for {node}: {reason or "no reason"}'
        )
        return
    yield sentence(f"{facts.meaning or case['code']} ({case['code']}, {case['severity']}) on {where}")
    if case["relapse_of"]:
        yield f"The fault came back: case {case['relapse_of']} repaired it before."
    faults = [
        one["data"] for one in of_type(facts.entries, DETECTED, UPDATED) if one["data"].get("code") == case["code"]
    ]
    if faults:
        reporters = sorted({str(name) for fault in faults for name in fault.get("reporters") or ()})
        count = int(faults[-1].get("count") or 1)
        times = "once" if count == 1 else f"at least {count} times"
        yield f"Reported {times} by {', '.join(reporters)}: {faults[0].get('message') or 'no message'}"
    others = {str(one["data"].get("code")) for one in of_type(facts.entries, DETECTED)} - {str(case["code"])}
    if others:
        yield f"The same node also reported {', '.join(sorted(others))}."


def _why(facts: CaseFacts) -> Iterator[str]:
    case, action = facts.case, action_text(facts.case["action"])
    if case["code"] == "operator.quarantine":
        yield "The order of the operator decides: keep the node out of service."
    elif case["rule"] == "catalog":
        yield f"The fault catalog decides: {action}. No rule of policy {case['policy']} matches."
    else:
        yield f"Rule {case['rule']} of policy {case['policy']} applies to this fault: {action}."
    repair = action_text(case["repair_action"])
    if repair != action and case["action"] != "contact_support":
        yield f"The current repair action is: {repair}."
    approval = case["approval"]
    if approval and approval["answer"]:
        asked = action_text(approval["repair_action"])
        yield f"{short_name(approval['operator'])} {approval['answer']} the request of this case: {asked}."


def _what_was_done(facts: CaseFacts) -> Iterator[str]:
    case, steps = facts.case, of_type(facts.entries, STEP)
    status, isolation = str(facts.node["status"]), str(facts.node["isolation"])
    node = f"{words(status)}, {'in' if status in IN_SERVICE else 'out of'} service"
    if not steps and not case["resolution"] and not case["attempt"]:
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


def _result(case: Document, steps: Sequence[Document]) -> str:
    resolution, after = case["resolution"], duration_text(case["age_ms"])
    if resolution in DONE:
        done = _REPAIRED.get(str(case["repair_action"]), "The node was repaired")
        attempts = f", in {case['attempt']} attempts" if case["attempt"] > 1 else ""
        return f"{done} and verified within {after}{attempts}.{_swap(steps)}"
    if resolution:
        return f"No repair was completed. The case was closed after {after}: {words(resolution)}."
    if case["status"] == "in_progress":
        return f"A repair runs: {action_text(case['repair_action'])}, attempt {case['attempt']}.{_swap(steps)}"
    return f"A repair was tried and not completed; number of attempts: {case['attempt']}."


def _swap(steps: Sequence[Document]) -> str:
    old = [str(one["data"]["old_instance"]) for one in steps if one["data"].get("old_instance")]
    new = [str(one["data"]["new_instance"]) for one in steps if one["data"].get("new_instance")]
    return f" Instance {old[0]} was replaced by {new[-1]}." if old and new and old[0] != new[-1] else ""


def _sentences(template: str, values: Values) -> tuple[str, ...]:
    """Return each line of a template as a sentence, with the values inserted.

    A value with several lines stays in one sentence.
    """
    return tuple(sentence(line.format_map(values)) for line in template.split("\n"))


def sentence(text: str) -> str:
    """Return a text as a sentence: it starts with a capital letter and ends with a period."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
