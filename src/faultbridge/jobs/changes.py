"""The changes of a job that are recorded as entries, and the data of these entries."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.jobs import Job
from faultbridge.domain.conditions import Condition, condition_key
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import from_text, to_text
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.node_list import MAX_LISTED, node_list


@dataclass(frozen=True, slots=True)
class Impact:
    """A condition of a node that affects the jobs on it, with the node's case and instance."""

    node: str
    condition: Condition
    case_id: str | None = None
    instance_id: str | None = None

    @property
    def is_of_node(self) -> bool:
        """Return whether the severity of the condition is at least `error`.

        The job may then resume only when the node is usable again or retired.
        """
        return self.condition.severity.rank >= Severity.ERROR.rank

    @property
    def key(self) -> str:
        """Return a key that is equal for all reports of one impact, so that a job records the impact once."""
        one = self.condition
        return f"{self.node} {condition_key(one.code, one.component)} {to_text(one.since)}"


def hit_since(key: str) -> datetime:
    """Return when the fault of an impact began, read from the key of the impact (`Impact.key`)."""
    return from_text(key.rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class RankMove:
    """The ranks that must move to another instance, because their node was replaced or retired.

    `ranks` is None if they are unknown or their text is too long. `to_instance_id` is None if the node was retired.
    """

    node: str
    ranks: str | None
    from_instance_id: str | None
    to_instance_id: str | None


@dataclass(frozen=True, slots=True)
class Resume:
    """The reason why a job may resume: its affected nodes returned, were replaced or were retired.

    `cause` is an event id: the last status change of the affected node whose case was closed last. `moves` has one item
    for each replaced or retired node. The ranks of other nodes keep their node and instance.
    """

    returned: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    cause: str | None = None
    moves: tuple[RankMove, ...] = ()

    @property
    def reason(self) -> str:
        """Return the reason as text: how many nodes returned, were replaced or were retired."""
        parts = {"returned to service": self.returned, "replaced": self.replaced, "retired": self.retired}
        text = ", ".join(f"{len(nodes)} {name}" for name, nodes in parts.items() if nodes)
        return f"no affected node holds the job back any longer: {text}"


@dataclass(frozen=True, slots=True)
class CallbackResult:
    """The result of one callback, which is a notification that a job may resume.

    `cause` is the id of the event that the callback delivers, or None if the event is no longer in the table.
    """

    name: str
    delivered: bool
    cause: str | None


@dataclass(frozen=True, slots=True)
class JobChange:
    """A change of a job that is recorded as an entry: its name and reason.

    `impact` is set if a fault affects the job, `resume` if the job may resume, and `callback` if the result of a
    callback is recorded. All other changes have only a name and a reason.
    """

    name: str
    reason: str
    impact: Impact | None = None
    resume: Resume | None = None
    callback: CallbackResult | None = None


def entry_data(job: Job, change: JobChange) -> dict[str, Any]:
    """Return the `data` of the entry that records a change of a job."""
    return {
        "job_id": job.id,
        "name": job.name,
        "change": change.name,
        "reason": change.reason,
        "nodes": node_list(job.nodes),
        "started_at": to_text(job.started_at),
        "ended_at": to_text(job.ended_at) if job.ended_at else None,
        "outcome": job.outcome,
        "hit": _hit(change.impact) if change.impact else None,
        "resume": _resume(change.resume) if change.resume else None,
        **({"callback": _callback(change.callback)} if change.callback else {}),
    }


def _hit(impact: Impact) -> dict[str, Any]:
    condition = impact.condition
    about = {"code": condition.code, "component": entry_builder.component_data(condition.component)}
    return {"node": impact.node, "about": about}


def _callback(callback: CallbackResult) -> dict[str, Any]:
    return {"name": callback.name, "delivered": callback.delivered}


def _resume(resume: Resume) -> dict[str, Any]:
    nodes = {name: node_list(getattr(resume, name)) for name in ("returned", "replaced", "retired")}
    moves = sorted(resume.moves, key=lambda one: one.node)[:MAX_LISTED]
    return {**nodes, "moves": [asdict(one) for one in moves]}
