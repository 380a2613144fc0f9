"""Job advice: the questions of an operator about a job, with their answers.

The questions are: what happened to the job, why it ended, whether it may restart, and what to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from faultbridge.presentation.cases.case_answers import Answer
from faultbridge.presentation.entry_rows import Document


class NodeFault(Protocol):
    """A fault that affected a job, with the node that has the fault."""

    @property
    def node(self) -> str:
        """The name of the node that has the fault."""

    @property
    def fault(self) -> str:
        """The fault code and the faulty component as text."""


HARDWARE = {
    "blamed": "A node's own source shows the fault that ended it.",
    "acquitted": "No fault of a node ended it.",
    "not_shown": "No node was shown to be at fault, and not every node was checked.",
}
_OUTLOOK = {
    "RESTART": "Yes: it may restart on the same nodes.",
    "RESTART_WITHOUT": "Yes, without {nodes}.",
    "STOP": "No: a restart would fail in the same way.",
}
_OUTCOMES = {
    "succeeded": "It succeeded",
    "failed": "It failed",
    "cancelled": "It was canceled",
    "unreported": "It ended with an unreported outcome",
}
_EXPLAIN = "faultbridge explain LOGS --job {job} --cluster {cluster} --record"


def job_answers(job: Document, verdict: Mapping[str, Any] | None, hits: Sequence[NodeFault]) -> tuple[Answer, ...]:
    """Return the questions about a job with their answers.

    `verdict` is the recorded verdict on the job, if there is one. `hits` are the faults that affected the job.
    """
    explain = (_EXPLAIN.format(job=shlex.quote(str(job["job_id"])), cluster=job["cluster"]),)
    answers = [Answer("What happened?", tuple(_what_happened(job, hits)))]
    if job["ended_at"] is None:
        return (*answers, Answer("What should you do?", tuple(_while_it_runs(job))))
    if verdict:
        why = (f"{verdict.get('summary')}.", HARDWARE.get(str(verdict.get("hardware")), ""))
        answers.append(Answer("Why did it end?", tuple(filter(None, why))))
    elif job["outcome"] != "succeeded":
        answers.append(Answer("Why did it end?", ("No explanation is recorded. This command records one:",), explain))
    if job["outcome"] != "succeeded":
        answers.append(Answer("May it restart?", tuple(_may_restart(job))))
    todo = str(verdict["settles"]) if verdict and verdict.get("settles") else _TODO.get(str(job["state"]), "Nothing.")
    if not verdict and todo == "Nothing." and job["outcome"] in {"failed", "unreported"}:
        return (*answers, Answer("What should you do?", ("Record an explanation.",), explain))
    return (*answers, Answer("What should you do?", (todo,)))


_TODO = {
    "waiting": "Wait until its nodes are back, or restart it without them.",
    "resumable": "Restart it, if your scheduler has not done so.",
}
_ALARMS = {
    "not_finite": "Its loss is not finite. Look at its training log, and restart it from a checkpoint before that.",
    "spike": "Its loss rose suddenly. Look at its training log.",
}


def _while_it_runs(job: Document) -> Iterator[str]:
    if job["stalled_at"]:
        yield f"Look at the logs of its ranks: it has been stalled since {job['stalled_at']}."
    if job["loss_alarm"]:
        yield _ALARMS[str(job["loss_alarm"])]
    if not job["stalled_at"] and not job["loss_alarm"]:
        yield "Nothing: the job runs."


def _what_happened(job: Document, hits: Sequence[NodeFault]) -> Iterator[str]:
    number = len(job["nodes"])
    nodes = f"{number} node{'s' if number != 1 else ''}"
    yield f"{_OUTCOMES.get(str(job['outcome']), 'It runs')} on {nodes}."
    listed = dict.fromkeys(f"{one.fault} of {one.node}" for one in hits)
    if listed:
        more = f", and {len(listed) - 8} more" if len(listed) > 8 else ""  # noqa: PLR2004 - as many as fit a card
        yield f"Faults of its nodes affected it: {'; '.join(list(listed)[:8])}{more}."
    elif job["affected_nodes"]:
        yield f"Faults of its nodes affected it: {', '.join(job['affected_nodes'][:8])}."
    else:
        yield "No fault of its nodes is recorded for it."


def _may_restart(job: Document) -> Iterator[str]:
    outlook = job["verdict"]["outlook"] if job["verdict"] else None
    if outlook:
        without = ", ".join(job["verdict"]["nodes"]) or "the nodes of the verdict"
        yield _OUTLOOK.get(str(outlook), f"The recorded verdict is {outlook}.").format(nodes=without)
    if job["resumable_at"]:
        yield "Its faulty nodes are back, replaced or removed."
    elif job["affected_nodes"] and job["state"] == "waiting":
        yield f"Its faulty nodes are not back yet: {', '.join(job['affected_nodes'][:8])}."
    elif not outlook:
        yield "Not known: no fault of its nodes and no explanation is recorded."
