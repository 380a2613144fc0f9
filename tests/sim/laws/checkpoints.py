"""Requests for checkpoints: each has a suspicion, a job is not asked again and again, and its answer is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from faultbridge.model.catalog import WorkEffect
from tests.sim.laws.law import Law
from tests.sim.situations.truth import ANSWERING, BEAT

if TYPE_CHECKING:
    from faultbridge.model.nodes import NodeState
    from tests.sim.simulated_system import SimulatedSystem

AGAIN = "a job is asked for a checkpoint at most once in ten minutes"
UNFOUNDED = "a checkpoint is requested only while a fault endangers the work of a node of the job"
UNANSWERED = "the answer of a job to a request for a checkpoint is recorded"

INTERVAL = timedelta(minutes=10)
SEEN_WITHIN = timedelta(minutes=5)
"""How long ago the fault may have ended when the request is recorded: the request reads the node before."""

ANSWERED_WITHIN = timedelta(seconds=4 * BEAT) + timedelta(hours=1)
"""The time of some heartbeats, an answer, and the longest outage."""


class CheckpointLaw(Law):
    """Follows the requests and the answers of each job by its entries."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self._endangered: dict[str, datetime] = {}
        self._now_endangered: set[str] = set()
        self._asked: dict[str, tuple[str, datetime]] = {}
        self._open: dict[str, datetime] = {}

    def node_changed(self, state: NodeState) -> None:
        """Keep when a fault last endangered the work of the node."""
        node = state.key.node
        if any(one.work is WorkEffect.AT_RISK for one in state.active()):
            self._now_endangered.add(node)
        elif node in self._now_endangered:
            self._now_endangered.discard(node)
            self._endangered[node] = self.now

    def entry_added(self, body: dict[str, Any]) -> None:
        """Check a request, and keep an answer or the end of a job."""
        data, kind = body["data"], body["metadata"]["event_type"]
        if kind == "Job Checkpoint Requested":
            self._check_request(str(data["job_id"]), data)
        elif kind == "Job Change" and data["change"] in {"checkpointed", "ended"}:
            self._open.pop(str(data["job_id"]), None)

    def _check_request(self, job: str, data: dict[str, Any]) -> None:
        asked, node = str(data["checkpoint_id"]), str(data["risk"]["node"])
        before, at = self._asked.get(job, ("", self.now - INTERVAL))
        if asked != before and self.now - at < INTERVAL:
            self.broken(AGAIN, f"{job} {asked}", f"asked at {at:%d %H:%M:%S} too")
        ended = self._endangered.get(node)
        recently = ended is not None and self.now - ended <= SEEN_WITHIN
        if (node not in self._now_endangered and not recently) or node not in data["nodes"]["listed"]:
            self.broken(UNFOUNDED, f"{job} {asked}", f"because of {node}")
        self._asked[job] = asked, self.now
        if job.startswith(ANSWERING):
            self._open.setdefault(job, self.now)

    def restored(self) -> None:
        """Forget the requests: the restored table may not have them."""
        self._asked.clear()
        self._open.clear()

    def ended(self) -> Iterator[tuple[str, str]]:
        """Yield each request that a job which answers has left open for too long."""
        for job, at in self._open.items():
            if self.now - at > ANSWERED_WITHIN:
                yield UNANSWERED, f"{job} since {at:%d %H:%M:%S}"
