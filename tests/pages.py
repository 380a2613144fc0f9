"""Events that trigger or resolve pages, as the bus delivers them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.model.enums import EntryType
from faultbridge.model.times import to_text
from tests.sim.fakes import START

CASE = "c-abcdefghijklmnopqrstuvwxyz"
GPU = {"type": "gpu", "pci": "0000:c1:00", "uuid": None, "index": None, "serial": "1654922006713"}
MESSAGE = "GPU has fallen off the bus."


def event(
    event_type: str, sequence: int = 7, node: str | None = "ip-10-0-0-7", case: str = CASE, **data: Any
) -> dict[str, Any]:
    """Build the detail of an event; without a node it is an event of the cluster."""
    metadata = {
        "event_id": f"00000000-0000-5000-8000-{sequence:012d}",
        "event_type": event_type,
        "cluster": "train-a",
        "node": node,
        "stream": f"train-a/{node}" if node else "train-a",
        "epoch": 1,
        "sequence": sequence,
        "occurred_at": to_text(START),
        "recorded_at": to_text(START),
        "severity": "fatal",
        "case_id": case if node else None,
    }
    return {"metadata": metadata, "data": data}


def case_event(
    to: str, sequence: int = 7, *, node: str = "ip-10-0-0-7", case: str = CASE, **data: Any
) -> dict[str, Any]:
    """Build a status change of a case; `from` is None unless given."""
    given = {
        "from": None,
        "to": to,
        "reason": "xid.79",
        "resolution": None,
        "cause": {"code": "xid.79", "component": GPU, "message": MESSAGE},
        "severity": "fatal",
        "action": "replace_node",
        "repair_action": "replace_node",
        "opened_at": to_text(START - timedelta(minutes=3)),
        "phases": {},
        "incarnation": {"instance_id": "i-0123456789abcdef0", "instance": 1, "boot": 1},
    }
    return event(EntryType.CASE_STATUS, sequence, node, case, **(given | data))


def incident(change: str, sequence: int = 3, **data: Any) -> dict[str, Any]:
    """Build a change of a cluster incident."""
    given = {
        "incident_id": "switch-leaf-7",
        "change": change,
        "from": None,
        "to": "closed" if change == "closed" else "open",
        "reason": "64 nodes behind leaf-7 lost their links within 40 s",
        "cause": {"code": "net.link_down", "component": None, "text": "the switch they share"},
        "family": "network",
        "domain": {"type": "network_node", "name": "leaf-7"},
        "domain_nodes": 64,
        "nodes": {"count": 64, "listed": [f"gpu-{number:04}" for number in range(50)]},
        "added": {"count": 64, "listed": [f"gpu-{number:04}" for number in range(50)]},
        "removed": {"count": 0, "listed": []},
        "absorbed_cases": 64,
        "opened_at": to_text(START),
        "phases": {},
    }
    return event(EntryType.CLUSTER_INCIDENT, sequence, None, **(given | data))


def note(kind: str, stage: str, sequence: int, text: str) -> dict[str, Any]:
    """Build a note entry with its kind and stage; an approval request is about a replacement."""
    facts = {"repair_action": "replace_node"} if kind == "approval" else {}
    return event(EntryType.NOTE, sequence, kind=kind, stage=stage, text=text, facts=facts)


OPENED = case_event("open", 6)
QUEUED = case_event("queued", 7, **{"from": "open"})
ESCALATED = case_event("escalated", 12, **{"from": "in_progress", "reason": "three attempts failed: VERIFY_FAILED"})
STOPPED = case_event("escalated", 12, **{"from": "queued", "reason": "denied: a job runs until tonight"})
STOPPED["metadata"]["recorded_by"] = "cli"
CLOSED = case_event(
    "resolved",
    20,
    **{
        "from": "in_progress",
        "resolution": "replaced",
        "reason": "verified and back in service",
        "phases": {"detected": 2100, "open": 900, "queued": 400, "in_progress": 187_000},
    },
)
BREAKER = event(
    EntryType.CLUSTER_SAFETY, 4, None, kind="breaker", to="open", reason="9 of 40 nodes failed within 5 minutes",
    scope="cluster", domain=None, counts={"failing": 9, "of": 40}, **{"from": "closed"},
)  # fmt: skip
BREAKER_CLOSED = event(EntryType.CLUSTER_SAFETY, 9, None, kind="breaker", to="closed", reason="closed by an operator")
BUDGET = event(
    EntryType.CLUSTER_SAFETY, 5, None, kind="budget", to="used_up", reason="4 of 4 repairs of this hour have begun",
    scope="cluster", domain=None, counts={"begun": 4, "limit": 4}, **{"from": "available"},
)  # fmt: skip
FALSE_CLAIMS = event(
    EntryType.CLUSTER_SAFETY, 6, None, kind="claims", to="damped", source="prometheus-alertmanager",
    reason="2 claims of prometheus-alertmanager were refuted or expired; claims of it are only notes",
    scope="cluster", domain=None, counts={}, until="2026-02-04T12:00:00.000Z", **{"from": "accepted"},
)  # fmt: skip

PAGES: dict[str, tuple[dict[str, Any], ...]] = {
    "case-opened": (QUEUED,),
    "case-escalated": (ESCALATED,),
    "case-stopped": (STOPPED,),
    "case-closed": (QUEUED, CLOSED),
    "breaker-open": (BREAKER,),
    "breaker-closed": (BREAKER, BREAKER_CLOSED),
    "budget-used-up": (BUDGET,),
    "false-claims": (FALSE_CLAIMS,),
    "approval-needed": (note("approval", "begun", 9, "replace_node requires approval"),),
    "isolation-overdue": (note("isolation", "overdue", 10, "slurm did not answer for 5 minutes"),),
    "incident-opened": (incident("opened"),),
    "incident-closed": (incident("opened"), incident("closed", 8, reason="leaf-7 forwards again")),
}
"""The events that lead to each kind of page, by the name of its golden file; the last event causes the page."""
