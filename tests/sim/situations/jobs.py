"""Actions of jobs: they start, send heartbeats, and save or ignore the checkpoints that are requested."""

from __future__ import annotations

from functools import partial
from typing import Any

from faultbridge.model.cluster.jobs import Job
from faultbridge.repair.jobs.reports import record_report
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_api_jobs
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.samples import kernel_line
from tests.sim.simulated_system import REPAIRED
from tests.sim.situations.claims import ClaimActions
from tests.sim.situations.truth import ANSWERING, BEAT

MAX_BEATS = 60
"""How many heartbeats a job sends before it ends."""

ENDANGERING_XIDS = (143, 64)
"""Xids of faults that endanger running work and do not end it."""


class JobActions(ClaimActions):
    """Runs jobs on nodes of the `REPAIRED` cluster that take work."""

    def _job_begins(self, action: ExternalAction) -> None:
        """Start a job on up to three nodes, which runs for up to five hours."""
        names = [one for one in map(self._node_name, self._running()) if self._instance_that_takes_work(one)]
        nodes = names[action.selector % 2 :][:3]
        if not nodes:
            return
        job = f"{ANSWERING if action.selector % 3 else 'ignores'}-{action.selector}"
        self._log(f"job {job} starts on {', '.join(nodes)}")
        self._report_job({"change": "start", "job_id": job, "nodes": nodes})
        self._later(BEAT, partial(self._job_beats, job, 1, 2 + int(MAX_BEATS * action.fraction)))

    def _work_endangered(self, action: ExternalAction) -> None:
        """Let the kernel of a node report a fault that its work may survive; each third one is about all nodes."""
        xid = ENDANGERING_XIDS[action.selector % len(ENDANGERING_XIDS)]
        for instance in self._one_or_all(action):
            name = self._node_name(instance)
            self._log(f"Xid {xid} endangers the work of {name}")
            body = kernel_line(xid, action.selector // 7, None)
            self._send_until_accepted(RawInput("kernel-log", REPAIRED, body, name, instance.instance_id), 0.0, 2)

    def _job_beats(self, job: str, step: int, last: int) -> None:
        if step == last:
            self._report_job({"change": "end", "job_id": job, "outcome": "succeeded"})
            return
        self._report_job({"change": "heartbeat", "job_id": job, "step": step}, answers=job.startswith(ANSWERING))
        self._later(BEAT, partial(self._job_beats, job, step + 1, last))

    def _report_job(self, report: dict[str, Any], *, answers: bool = False) -> None:
        """Report a change of a job, and answer the request for a checkpoint that the response contains."""
        asked: list[Job] = []
        self.run_command(lambda app: asked.append(record_report(wire_api_jobs(app), REPAIRED, report)), tries=3)
        request = asked[0].requested_checkpoint if asked and answers else None
        if request is not None:
            saved = {"change": "checkpoint", "job_id": report["job_id"], "checkpoint_id": request.id}
            self._later(60, partial(self._report_job, saved))
