"""Advice: what happens next in a case and what an operator should do, by its status and what it waits for.

The keys are a status, `queued` with what the case waits for, and `resolved` with its resolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """What happens next, what an operator should do, with which commands, and the runbook."""

    next: str
    action: str
    commands: tuple[str, ...] = ()
    runbook: str = ""


NEXT: Mapping[str, str] = {
    "open": "The case waits until {not_before}. Then it joins the repair queue, unless the fault ends before.",
    "queued": "The case is in the repair queue: {reason}.",
    "queued wait": "The case waits until {not_before}. Then the repair may start.",
    "queued approval": "The repair ({repair_action}) starts only after an operator approves it. "
    "The request expires at {answer_by}.",
    "queued window": "The repair starts in the next maintenance window of rule {rule}.",
    "queued budget": "The repair starts when the policy permits another one: {reason}. "
    "{slots} repairs run in the cluster.",
    "queued breaker": "The repair starts when the circuit breaker closes: {reason}.",
    "queued capacity": "The repair starts when the provider has capacity: {reason}. One try at a time is made.",
    "queued incident": "The repair starts when the incident closes: {reason}.",
    "queued pause": "The repair starts when an operator resumes the repairs of the cluster.",
    "in_progress": "Attempt {attempt} runs: {repair_action}. The node returns to service only after verification.",
    "absorbed": "The case waits for incident {incident}. It continues when the incident closes.",
    "escalated": "Nothing happens automatically. The node is {node_status} until an operator acts. Reason: {reason}.",
    "resolved": "Nothing: the case is closed.",
    "resolved replaced": "Nothing: another verified instance serves. A relapse within the probation gets the next "
    "stronger action.",
    "resolved repaired": "Nothing: the node was verified and serves. A relapse within the probation gets the next "
    "stronger action.",
    "resolved recovered": "Nothing: the fault ended before a repair started.",
    "resolved dry_run": "Nothing: the mode of the cluster was dry_run, so the repair was only recorded.",
    "expired": "Nothing: the case expired ({reason}).",
    "unknown": "The status of this case is not known to this version of the console. See the entries below.",
}

_SHOW = "faultbridge case show {case}"
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
        "Check whether many nodes share one cause. Close the breaker only if they do not.",
        ("faultbridge breaker --cluster {cluster}", "faultbridge breaker --cluster {cluster} --close"),
        "many-pages",
    ),
    "queued capacity": (
        "Nothing, if you can wait. Otherwise add capacity or a spare, or fix the node yourself.",
        ("faultbridge cluster show {cluster}",),
        "reason-capacity",
    ),
    "queued incident": ("Fix the shared cause. The repair continues by itself.", (), "incident"),
    "queued pause": ("Resume repairs when you are ready.", ("faultbridge resume --cluster {cluster}",), ""),
    "absorbed": (
        "Fix the shared cause. If there is none, close the incident.",
        ("faultbridge incident show {incident}", "faultbridge incident close {incident}"),
        "incident",
    ),
    "escalated": (
        "Find the cause, fix or replace the node, then return it to service.",
        (_SHOW, _RETURN, _REPLACE),
        "stuck-case",
    ),
    "expired": ("Check the node before you use it.", (_RETURN,), "stuck-case"),
    "unknown": ("Read the entries of the case.", (_SHOW,), ""),
}
"""The action, the commands and the runbook; a key that is missing needs no action (`none`)."""

PARTS_WITHOUT_REPAIR: Mapping[str, str] = {
    "open": "No repair has started: the waiting period of rule {rule} ends at {not_before}.",
    "absorbed": "No repair starts while incident {incident} is open: its nodes share one cause, and replacing a node "
    "does not fix a shared cause.",
    "escalated": "The repair stopped: {reason}. Faultbridge does not try again by itself.",
    "expired": "The case expired without a repair: {reason}.",
    "dry_run": "The mode of the cluster is {mode}: the repair was recorded and not carried out.",
    "recovered": "No repair was needed: {reason}.",
    "cancelled": "An operator canceled the repair: {reason}.",
    "by_operator": "An operator closed the case: {reason}.",
    "external": "Another system replaced the instance: {reason}.",
    "retired": "The node was removed from the cluster: {reason}.",
}
"""Why a case has no repair, by its resolution, or by its status while it is not resolved."""
