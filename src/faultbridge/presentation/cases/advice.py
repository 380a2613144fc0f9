"""Advice: why a case has no repair, what happens next, and what an operator should do.

The tables contain these texts by the situation of a case. The situation is the status of the case. For some statuses, a
detail follows:

- `queued`: what the case waits for; `retry` or `again` after an attempt
- `open`: `correlation`, while the fault is compared with the faults of other nodes
- `resolved`: the resolution
- `escalated`: what stopped the repair, which is `denied`, `relapse` or `operator` (an operator keeps the node out of
  service)
"""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.dataclass import dataclass
from faultbridge.presentation.entry_rows import Document


@dataclass(frozen=True, slots=True)
class Advice:
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
    "queued idle": "The node is verified when its running work has ended; nothing is evicted for a claim.",
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
    "queued idle": "Only senders that did not prove to be the node report the fault, so the verification waits until "
    "running work has ended: {reason}.",
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


def situation(case: Document) -> str:
    """Return the situation of a case, which is its key in the tables of this module.

    The situation is the status of the case, such as `open`. A detail follows for some statuses: what a queued or open
    case waits for, how a case was resolved, or what stopped the repair of an escalated case.
    """
    status = str(case["status"])
    detail = case["waiting_for"] if status == "queued" else case["resolution"] if status == "resolved" else None
    if status == "queued" and case["attempt"]:
        # A failed attempt is followed by a wait; an order or a stronger action leads to the queue at once.
        detail = {"wait": "retry", "admission": "again"}.get(str(detail), detail)
    if status == "open" and case["waiting_for"] == "correlation":
        detail = "correlation"
    if status == "escalated":
        detail = _stopped_by(case)
    return f"{status} {detail}" if detail else status


def _stopped_by(case: Document) -> str | None:
    if (case["approval"] or {}).get("answer") == "denied":
        return "denied"
    if str(case["code"]) == "operator.quarantine":
        return "operator"
    return "relapse" if case["relapse_of"] and not case["attempt"] else None


def advice_for(case: Document) -> Advice:
    """Return what happens next, and what an operator should do, in the situation of a case."""
    key, status = situation(case), str(case["status"])
    following = NEXT.get(key) or NEXT.get(status) or NEXT["unknown"]
    known = next((one for one in (key, status) if one in ACTIONS), "none" if status in NEXT else "unknown")
    return Advice(following, *ACTIONS[known])


def without_repair(case: Document) -> str:
    """Return a text template that states why a case has no repair.

    It is "" if the case was repaired or its repair runs.
    """
    exact = str(case["resolution"]) if case["resolution"] else situation(case)
    if exact == "queued approval" and not (case["approval"] or {}).get("by_rule", True):
        exact = "queued unproven"  # no rule asks: the attempt itself did, because it found no evidence of capacity
    return WITHOUT_REPAIR.get(exact) or WITHOUT_REPAIR.get(str(case["status"]), "")
