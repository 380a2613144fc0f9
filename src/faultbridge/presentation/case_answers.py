"""Case answers: what happened, why, what was done, what happens now, and what an operator should do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge.ledger.entry_text import component_text, duration_text
from faultbridge.presentation.advice import ACTIONS, NEXT, PARTS_WITHOUT_REPAIR, Advice
from faultbridge.presentation.entry_rows import Document
from faultbridge.presentation.history import DETECTED, STEP, UPDATED, of_type
from faultbridge.presentation.waits import Wait, case_waits

MAX_STEPS = 40


@dataclass(frozen=True, slots=True)
class Answer:
    """One question and its answer: sentences, and commands that an operator may run."""

    question: str
    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()
    runbook: str = ""


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """The documents from which a case is explained; `meaning` is the name of the fault code in the catalog."""

    case: Document
    node: Document
    cluster: Document
    entries: Sequence[Document]
    meaning: str = ""


def five_answers(facts: CaseFacts) -> tuple[Answer, ...]:
    """Return the five questions of a case with their answers, in the order in which an operator reads them."""
    advice = advice_for(facts.case)
    values = _values(facts)
    return (
        Answer("What happened?", tuple(_what_happened(facts))),
        Answer("Why this action?", tuple(_why(facts))),
        Answer("What was done?", tuple(_what_was_done(facts))),
        Answer("What happens now?", (advice.next.format_map(values),)),
        Answer(
            "What should you do?",
            (advice.action.format_map(values),),
            tuple(command.format_map(values) for command in advice.commands),
            advice.runbook,
        ),
    )


def refusal(facts: CaseFacts) -> tuple[str, tuple[Wait, ...]]:
    """Return why the node was not repaired, or why the repair waited, and each wait with its reason.

    Both are empty for a case whose repair did not wait.
    """
    case, waits = facts.case, case_waits(facts.entries)
    reason = PARTS_WITHOUT_REPAIR.get(str(case["resolution"] or case["status"]))
    if reason:
        return reason.format_map(_values(facts)), waits
    if case["status"] == "queued":
        return NEXT[_advice_key(case)].format_map(_values(facts)), waits
    return ("The repair started after these waits.", waits) if waits else ("", ())


def advice_for(case: Document) -> Advice:
    """Return what happens next and what to do for the status of a case and what it waits for."""
    key = _advice_key(case)
    return Advice(NEXT[key], *ACTIONS.get(key, ACTIONS["none"]))


def _advice_key(case: Document) -> str:
    status = str(case["status"])
    detail = case["waiting_for"] if status == "queued" else case["resolution"] if status == "resolved" else None
    key = f"{status} {detail}" if detail else status
    return key if key in NEXT else status if status in NEXT else "unknown"


def _what_happened(facts: CaseFacts) -> Iterator[str]:
    case = facts.case
    where = component_text(case["component"])
    meaning = f" ({facts.meaning})" if facts.meaning else ""
    fault = f"{case['severity']} fault {case['code']}{meaning}"
    yield f"Detected: {fault} on {where or 'the node'} of node {case['node']}."
    faults = [
        one["data"] for one in of_type(facts.entries, DETECTED, UPDATED) if one["data"].get("code") == case["code"]
    ]
    if faults:
        first, last = faults[0], faults[-1]
        reporters = sorted({str(name) for fault in faults for name in fault.get("reporters") or ()})
        yield f"The source reported: {first.get('message') or 'no message'}"
        yield f"Reported by {', '.join(reporters)}. Number of observations: at least {last.get('count') or 1}."
    others = {str(one["data"].get("code")) for one in of_type(facts.entries, DETECTED)} - {str(case["code"])}
    if others:
        yield f"The same node also reported {', '.join(sorted(others))}."
    if case["relapse_of"]:
        yield f"The fault came back after the repair of case {case['relapse_of']}."


def _why(facts: CaseFacts) -> Iterator[str]:
    case = facts.case
    by_catalog = case["rule"] == "catalog"
    source = (
        "No rule of the policy matches, so the fault catalog decides" if by_catalog else f"Rule {case['rule']} decides"
    )
    yield f"{source}: {_words(case['action'])} (policy {case['policy']})."
    if case["repair_action"] != case["action"]:
        yield f"The repair action of this case is {_words(case['repair_action'])}."
    if case["previous_case"]:
        yield f"The node had an earlier case: {case['previous_case']}."
    approval = case["approval"]
    if approval and approval["answer"]:
        action = _words(approval["repair_action"])
        yield f"{approval['operator']} {approval['answer']} {action} for attempt {approval['attempt']}."


def _what_was_done(facts: CaseFacts) -> Iterator[str]:
    case, steps = facts.case, of_type(facts.entries, STEP)
    if not steps:
        yield "No repair was started."
    for number in sorted({int(one["data"].get("attempt") or 0) for one in steps}):
        of_attempt = [one["data"] for one in steps if int(one["data"].get("attempt") or 0) == number]
        done = "; ".join(f"{_words(one.get('step'))}: {_words(one.get('outcome'))}" for one in of_attempt[:MAX_STEPS])
        yield f"Attempt {number} ({_words(of_attempt[-1].get('repair_action'))}): {done}."
        yield from _instances(of_attempt)
    if case["resolution"]:
        yield f"The case was closed after {duration_text(case['age_ms'])}: {_words(case['resolution'])}."
    isolation = facts.node["isolation"]
    yield f"Isolation of the node now: {_words(isolation)}. Node status now: {_words(facts.node['status'])}."


def _instances(steps: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the old and the new instance of an attempt, if it replaced one."""
    old = {str(one["old_instance"]) for one in steps if one.get("old_instance")}
    new = {str(one["new_instance"]) for one in steps if one.get("new_instance")}
    if new and old:
        yield f"Instance {', '.join(sorted(old))} was replaced by {', '.join(sorted(new))}."


def _values(facts: CaseFacts) -> _Values:
    case = facts.case
    names = ("case_id", "cluster", "node", "rule", "incident", "not_before", "attempt", "reason", "code")
    approval = case["approval"] or {}
    return _Values(
        {name: case[name] for name in names}
        | {
            "case": case["case_id"],
            "repair_action": _words(case["repair_action"]),
            "action_name": case["repair_action"],
            "answer_by": approval.get("answer_by"),
            "mode": facts.cluster["mode"],
            "node_status": _words(facts.node["status"]),
            "slots": len(facts.cluster["holders"]),
        }
    )


class _Values(dict[str, Any]):
    """Values of a sentence; a missing one is shown as `-`."""

    def __missing__(self, _name: str) -> str:
        return "-"

    def __getitem__(self, name: str) -> object:
        found = super().__getitem__(name)
        return "-" if found is None or found == "" else found


def _words(name: object) -> str:
    return str(name).replace("_", " ")
