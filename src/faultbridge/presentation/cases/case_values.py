"""Case values: the values that sentences about a case insert, such as times, names and open breakers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faultbridge.domain.cluster.breakers import BreakerScope, breaker_name, domain_of
from faultbridge.domain.times import from_text
from faultbridge.presentation.breakers import breaker_end, breaker_limit
from faultbridge.presentation.cases.case_facts import CaseFacts
from faultbridge.presentation.entry_rows import Document
from faultbridge.presentation.wording import action_text, reason_text, without_code, words

MAX_LISTED = 8


class Values(dict[str, Any]):
    """The values for the templates of sentences; a missing or empty value is shown as `-`."""

    def __missing__(self, _name: str) -> str:
        return "-"

    def __getitem__(self, name: str) -> object:
        found = super().__getitem__(name)
        return "-" if found is None or found == "" else found


def case_values(facts: CaseFacts) -> Values:
    """Return the values of the placeholders in sentence templates about a case, by placeholder name."""
    case, approval = facts.case, facts.case["approval"] or {}
    names = ("case_id", "cluster", "node", "rule", "incident", "attempt", "code", "relapse_of")
    reason, recorded = reason_text(case["reason"]), str(case["reason"] or "")
    breaker_ends = _breaker_end(facts)
    return Values(
        {name: case[name] for name in names}
        | {
            "case": case["case_id"],
            "reason": reason,
            "detail": without_code(case["reason"]),
            "denial": recorded.removeprefix("denied: "),
            "incident_reason": recorded.rpartition(f"{case['incident']}: ")[2],
            "operator": short_name(approval.get("operator")),
            "breakers": ", ".join(_breaker(one, facts) for one in open_breakers(facts)) or reason,
            "breaker_end": breaker_ends[0],
            "breaker_then": breaker_ends[1],
            "not_before": _time(case["not_before"]),
            "next_try": _next_try(facts),
            "answer_by": _time(approval.get("answer_by")),
            "asked_at": _time(approval.get("asked_at")),
            "repair_action": action_text(case["repair_action"]),
            "action_name": case["repair_action"],
            "mode": words(facts.cluster["mode"]),
            "node_status": words(facts.node["status"]),
            "slots": _slots(facts),
        }
    )


def short_name(operator: object) -> str:
    """Return the last part of an operator's name, which may be an ARN."""
    return str(operator or "-").rpartition("/")[2]


def open_breakers(facts: CaseFacts) -> Iterator[Document]:
    """Yield the breakers of the cluster and of the node's failure domain that are not closed."""
    names = {breaker_name(BreakerScope.CLUSTER), breaker_name(BreakerScope.DOMAIN, facts.node["domain"])}
    return (one for one in facts.cluster["breakers"] if one["state"] != "closed" and one["name"] in names)


def _breaker(breaker: Document, facts: CaseFacts) -> str:
    domain, limit = domain_of(str(breaker["name"])), breaker_limit(breaker, facts.policy)
    text = f"the breaker of {domain or 'the cluster'}, {words(breaker['state'])} since {_time(breaker['since'])}"
    text += f", when {breaker['failing']} of {breaker['of']} nodes failed"
    return f"{text} (it opens at {limit.nodes} failed nodes, if they are {limit.percent} % of all)" if limit else text


def _breaker_end(facts: CaseFacts) -> tuple[str, str]:
    found = next(open_breakers(facts), None)
    if found is None:
        return "No breaker is open any longer.", "The next run of admission considers the case."
    return breaker_end(found, breaker_limit(found, facts.policy), facts.now)


def _slots(facts: CaseFacts) -> str:
    holders = list(facts.cluster["holders"])
    limits = facts.policy.limits if facts.policy else None
    most = f" of {limits.concurrent} permitted at a time, {limits.per_hour} permitted in an hour" if limits else ""
    named = (
        f" ({', '.join(map(str, holders[:MAX_LISTED]))}{', ...' if holders[MAX_LISTED:] else ''})" if holders else ""
    )
    return f"{len(holders)}{most}{named}"


def _next_try(facts: CaseFacts) -> str:
    """Return the time of the next attempt in words.

    The attempt starts after the waiting period of the case. If the node's group has no EC2 capacity, the waiting period
    of the group must be over too.
    """
    waits = facts.case["not_before"], facts.cluster["no_capacity_until"].get(facts.node["group"])
    later = max((from_text(str(one)) for one in waits if one), default=facts.now)
    return f"at {later:%Y-%m-%d %H:%M} UTC or some minutes later" if later > facts.now else "within some minutes"


def _time(text: object) -> str | None:
    return f"{from_text(str(text)):%Y-%m-%d %H:%M} UTC" if text else None
