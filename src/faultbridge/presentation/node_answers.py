"""Node answers: the questions of an operator about a node, with their answers.

The questions are: what happened to the node, why it is not repaired, what was done, what happens now, and what to do.
Questions that do not apply are left out. The first sentence of each answer can be read alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.domain.times import from_text
from faultbridge.ledger.entry_text import component_text
from faultbridge.presentation.cases.case_answers import NOT_REPAIRED, Answer, case_answers, sentence
from faultbridge.presentation.cases.case_facts import CaseFacts
from faultbridge.presentation.entry_rows import Document
from faultbridge.presentation.grid import IN_SERVICE
from faultbridge.presentation.tones import SEVERITY
from faultbridge.presentation.wording import reason_text, words

HAPPENED, NOW, ACTION = "What happened?", "What happens now?", "What should you do?"
_OF_CASE = frozenset({HAPPENED, "What was done?", NOW, ACTION})
_COMMAND = re.compile(r"`([^`]+)`")


def node_answers(node: Document, case: CaseFacts | None) -> Iterator[Answer]:
    """Yield the questions about a node with their answers.

    `case` has the facts of the node's live case, or of its last case if none is live. It is None if the node had no
    case.
    """
    if node["case"] and case is not None:
        yield from (one for one in case_answers(case) if one.is_refusal or one.question in _OF_CASE)
        return
    yield Answer(HAPPENED, (*_what_happened(node), _last_case(case)))
    without = node.get("no_repair")
    if without:
        commands = tuple(_COMMAND.findall(without["change"]))
        change = f"What changes this: {_COMMAND.sub('the command below', without['change'])}."
        yield Answer(NOT_REPAIRED, (sentence(str(without["reason"])), change), commands)
    elif str(node["status"]) in IN_SERVICE and not node["conditions"]:
        yield Answer(ACTION, ("Nothing: jobs may run on this node.",))


def _what_happened(node: Document) -> Iterator[str]:
    order = list(SEVERITY)
    faults = sorted(node["conditions"], key=lambda one: order.index(str(one["severity"])) if one["severity"] in order
                    else len(order), reverse=True)  # fmt: skip
    if not faults:
        yield f"No fault of this node is active. Its status is {words(node['status'])}."
        return
    worst = faults[0]
    component = component_text(worst["component"])
    where = f" on {component}" if component not in {"", "node"} else ""
    since = f"{from_text(str(worst['since'])):%Y-%m-%d %H:%M} UTC"
    yield sentence(f"{worst['code']} ({worst['severity']}){where} since {since}: {worst['message'] or 'no message'}")
    if faults[1:]:
        number = len(faults) - 1
        yield f"{number} other fault{'s are' if number > 1 else ' is'} active: see the active conditions."


def _last_case(last: CaseFacts | None) -> str:
    if last is None:
        return "No case of this node is recorded."
    case = last.case
    closed = f" at {from_text(str(case['closed_at'])):%Y-%m-%d %H:%M} UTC" if case["closed_at"] else ""
    fault = f"{last.meaning or case['code']} ({case['code']}, {case['severity']})"
    result = words(case["resolution"] or case["status"])
    reason = f", {reason_text(case['reason'])}" if case["reason"] else ""
    return sentence(f"Its last case {case['case_id']}, {fault}, was closed{closed}: {result}{reason}")
