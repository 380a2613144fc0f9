"""Computes hashes, page keys, budgets, approvals and statuses independently of the product.

The module implements the rules in the documentation of the product, and imports no code of the product. An error of the
product in one of these values therefore shows as a difference.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

Body = Mapping[str, Any]
"""The decoded body of an entry: `metadata` and `data`."""

AskingRule = tuple[tuple[str, ...], frozenset[str]]
"""A policy rule: its patterns of fault codes, empty for all codes, and its repair actions that need an approval."""

FAULT_ACTIONS = ("run_diagnostics", "reset_gpu", "reboot_node", "replace_node")
"""The actions that a fault can require, least disruptive first."""

TRIGGERED, RESOLVED = "triggered", "resolved"
CLOSED = frozenset({"resolved", "expired"})
REPAIRABLE = frozenset(FAULT_ACTIONS)
NOTE_PAGES = frozenset({"approval", "isolation", "recurrence", "waiting"})
NOTE_STAGES = {"begun": TRIGGERED, "overdue": TRIGGERED, "over": RESOLVED}
SAFETY_PAGES = {
    **dict.fromkeys(("open", "half_open", "used_up", "paused", "damped"), TRIGGERED),
    **dict.fromkeys(("closed", "available", "running", "accepted"), RESOLVED),
}
PROVIDER_PAGES = {"begun": TRIGGERED, "over": RESOLVED}
INCIDENT_PAGES = {
    "opened": (("incident", TRIGGERED),),
    "expired": (("incident", RESOLVED), ("incident-expired", TRIGGERED)),
    "closed": (("incident", RESOLVED), ("incident-expired", RESOLVED)),
}
GROWING = frozenset({"provisioning", "validating"})
RECOVERING = GROWING | {"draining", "repairing", "replacing"}
IN_SERVICE = frozenset({"healthy", "degraded"})


def sha256(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def genesis(stack_id: str, epoch: int, cluster: str, node: str | None) -> str:
    """Return the start value of a stream's hash chain, from which the hash of the first entry is computed."""
    return sha256(f"{stack_id}/{epoch}/{cluster}/{node or ''}")


def event_id(stack_id: str, stream: str, epoch: int, sequence: int) -> str:
    """Return the id of an event: a version 5 UUID of the stack, stream, epoch and sequence."""
    return str(uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_URL, stack_id), f"{stream}/{epoch}/{sequence}"))


def pages_of(body: Body) -> Iterator[tuple[str, str]]:
    """Yield the key and the state of each page that an entry requires.

    The state is `triggered` or `resolved`.
    """
    meta, data = body["metadata"], body["data"]
    owner, cluster = str(meta["case_id"] or meta["stream"]), str(meta["cluster"])
    match meta["event_type"]:
        case "Case Status Change":
            pages = _case_pages(data, by_operator=meta["recorded_by"] == "cli")
            yield from ((f"{owner}:{kind}", state) for kind, state in pages)
        case "Node Note Recorded" if data["kind"] in NOTE_PAGES and data.get("stage") in NOTE_STAGES:
            yield f"{owner}:{data['kind']}", NOTE_STAGES[data["stage"]]
        case "Node Note Recorded" if data["kind"] == "inventory" and data.get("stage") in NOTE_STAGES:
            yield f"{cluster}:unseen:{data['facts']['group']}", NOTE_STAGES[data["stage"]]
        case "Cluster Safety Change" if data["to"] in SAFETY_PAGES:
            covered = data.get("incident_id") or data.get("covered_by")
            if covered and SAFETY_PAGES[data["to"]] == TRIGGERED:
                return  # another page covers the change
            parts = (cluster, data["kind"], data["domain"] or data.get("source") or data.get("failure_mode"))
            yield ":".join(filter(None, parts)), SAFETY_PAGES[data["to"]]
        case "Cluster Status Change" if data.get("provider_stage") in PROVIDER_PAGES:
            yield f"{cluster}:provider", PROVIDER_PAGES[data["provider_stage"]]
        case "Cluster Incident Change":
            for kind, state in INCIDENT_PAGES.get(data["change"], ()):
                yield f"{cluster}:{kind}:{data['incident_id']}", state


def _case_pages(data: Mapping[str, Any], *, by_operator: bool) -> Iterator[tuple[str, str]]:
    """Yield the kind and the state of each page that a status change of a case requires.

    The kind, such as `opened` or `approval`, is the last part of the page's key. `by_operator` states whether an
    operator made the change.
    """
    before, after = data["from"], data["to"]
    repairable = data["severity"] == "fatal" and data["action"] in REPAIRABLE
    stopped = after == "escalated" and by_operator
    if repairable and after == "queued" and before in {"open", "escalated", "absorbed"}:
        yield "opened", TRIGGERED
    if stopped or (repairable and after in CLOSED | {"escalated", "absorbed"}):
        yield "opened", RESOLVED
    if after == "escalated":
        yield "stopped" if by_operator else "escalated", TRIGGERED
    if after in CLOSED or (before == "escalated" and after in {"queued", "absorbed"}):
        yield "escalated", RESOLVED
    if after in CLOSED | {"queued", "absorbed"}:
        yield "stopped", RESOLVED
    if after in CLOSED | {"escalated", "absorbed"}:
        yield "approval", RESOLVED
        yield "waiting", RESOLVED
    if after in CLOSED:
        yield "isolation", RESOLVED


def repairs_over_budget(bodies: Iterable[Body], concurrent: int, per_hour: int) -> Iterator[str]:
    """Yield a text for each repair that started although the repair budget of its cluster was used up.

    `bodies` are the entries of one cluster in the order of time. `concurrent` limits the repairs at the same time, and
    `per_hour` the repairs that start within an hour. Diagnostics (`verify`) need no budget. A node without an instance
    counts only for a repair that releases another instance. Of the entries of one moment, the starts of repairs come
    last, and of these, such a repair comes first.
    """
    bodies = sorted(bodies, key=lambda one: (one["metadata"]["recorded_at"], _rank(one["data"])))
    running: dict[str, str | None] = {}
    vacant: set[str | None] = set()
    starts: list[datetime] = []
    for body in bodies:
        meta, data = body["metadata"], body["data"]
        vacant = _without_instance(vacant, body)
        if meta["event_type"] != "Case Status Change":
            continue
        running.pop(meta["case_id"], None)
        if data["to"] != "in_progress" or data["repair_action"] == "verify":
            continue
        now = datetime.fromisoformat(meta["recorded_at"])
        running[meta["case_id"]] = meta.get("node")
        starts = [*(at for at in starts if at > now - timedelta(hours=1)), now]
        releases = data["repair_action"] == "replace_node" and meta.get("node") not in vacant
        counted = [node for node in running.values() if releases or node not in vacant]
        if len(counted) > concurrent or len(starts) > per_hour:
            yield f"{meta['case_id']}: {len(counted)} repairs at once, {len(starts)} within an hour"


def _rank(data: Mapping[str, Any]) -> int:
    if data.get("to") != "in_progress":
        return 0
    return 1 if data.get("repair_action") == "replace_node" else 2


def _without_instance(nodes: set[str | None], body: Body) -> set[str | None]:
    """Return the nodes without an instance after an entry; `nodes` are those before it."""
    meta, data = body["metadata"], body["data"]
    status = data["to"] if meta["event_type"] == "Node Status Change" else None
    if status == "provisioning" or data.get("outcome") == "gone":
        return {*nodes, meta.get("node")}
    return nodes - {meta.get("node")} if status in {*IN_SERVICE, "validating", "retired"} else nodes


def unapproved_repairs(bodies: Iterable[Body], asking: Sequence[AskingRule]) -> Iterator[str]:
    """Yield a text for each repair that started, or recorded its intent, without a required approval.

    An approval is valid for one repair action of one attempt. It is required if the policy requires it, for this repair
    action, for one of these faults:

    1. the active faults that require the repair action or a stronger action; if no fault does, all active faults;
    2. the faults to which 1. applied at earlier repairs of the case: a reboot may end a fault but not its cause;
    3. if there is no such fault: the worse fault that joined the case last, or else the fault that opened the case.

    `bodies` are the entries of one node in order. `asking` has the policy rules. The first rule with a pattern for the
    code of a fault applies.
    """
    causes: dict[str, str] = {}
    asked: dict[tuple[str, int], str] = {}
    approved: set[tuple[str, int, str]] = set()
    active: list[Body] = []
    before: dict[str, list[str]] = {}
    for body in bodies:
        data, case, kind = body["data"], body["metadata"]["case_id"], body["metadata"]["event_type"]
        facts = data.get("facts", {})
        if kind.startswith("Node Fault"):
            active = _after_fault(active, kind, data)
        elif "repair_action_before" in facts:
            causes[case] = data["text"].split(" joined the case")[0]
        elif data.get("kind") == "approval" and data.get("stage") == "begun":
            asked[case, facts["attempt"]] = facts["repair_action"]
        elif facts.get("order") == "approved":
            approved.add((case, facts["attempt"], asked[case, facts["attempt"]]))
        started = data.get("to") == "in_progress"
        if not started and (data.get("step"), data.get("outcome")) != ("intent", "committed"):
            continue
        action, attempt = data["repair_action"], data["attempt"]
        codes = [*_codes_requiring(active, action), *before.get(case, ())]
        if not codes and started and data["rule"] != "inventory":
            codes = [causes.get(case, data["cause"]["code"])]
        before[case] = codes
        if (case, attempt, action) not in approved and any(action in _asks(code, asking) for code in codes):
            yield f"{case}: attempt {attempt} is {action}"


def _after_fault(active: Iterable[Body], kind: str, data: Body) -> list[Body]:
    """Return the active faults of a node that require a repair, after an entry about one of its faults.

    `active` are the faults before the entry. `kind` and `data` are the event type and the data of the entry.
    """
    others = [one for one in active if not _is_same_fault(one, data)]
    counts = kind != "Node Fault Cleared" and data["action"] in FAULT_ACTIONS and data["incarnation"] is not None
    return [*others, data] if counts else others


def _is_same_fault(one: Body, other: Body) -> bool:
    """Return whether two entries are about the same fault, by its code, component and start.

    A later entry may correct the start of a fault or identify its device, so some fields may differ.
    """
    ours, theirs = one["component"], other["component"]
    if (one["code"], ours["type"]) != (other["code"], theirs["type"]):
        return False
    if one["since"] == other["since"] or ours == theirs:
        return True
    shared = [name for name in ("pci", "uuid", "index", "link", "name") if None not in (ours[name], theirs[name])]
    return bool(shared) and all(ours[name] == theirs[name] for name in shared)


def _codes_requiring(active: Iterable[Body], action: str) -> list[str]:
    least = FAULT_ACTIONS.index(action.replace("verify", "run_diagnostics"))
    faults = [(data["code"], FAULT_ACTIONS.index(data["action"])) for data in active]
    return [code for code, needed in faults if needed >= least] or [code for code, _ in faults]


def _asks(code: str, asking: Sequence[AskingRule]) -> frozenset[str]:
    for patterns, actions in asking:
        if not patterns or any(fnmatchcase(code, pattern) for pattern in patterns):
            return actions
    return frozenset()


def status_of_cluster(statuses: Iterable[str], expected: int) -> tuple[str, dict[str, int]]:
    """Return the status of a cluster, and the number of its nodes by status.

    `statuses` are the statuses of its registered nodes. `expected` is the number of nodes that it should have.
    """
    bad = [status for status in statuses if status not in {"healthy", "retired"}]
    counts = {status: bad.count(status) for status in sorted(bad)}
    if healthy := max(expected - len(bad), 0):
        counts["healthy"] = healthy
    out = sum(status not in IN_SERVICE | GROWING for status in bad)
    if not bad:
        return "healthy", counts
    if out >= max(2, expected * 0.2) and expected:
        return "critical", counts
    return "recovering" if RECOVERING.issuperset(bad) else "degraded", counts
