"""Requeue a Slurm job that may resume, or release a job that Slurm holds after its failure."""

from __future__ import annotations

import re
from collections.abc import Callable

from faultbridge.adapters.call_results import result_of
from faultbridge.adapters.slurm.scontrol import HeadNode, Scontrol
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.ports import CallResult, JobNotice, ProviderFailure

JOB_ID = re.compile(r"[0-9]{1,10}(_[0-9]{1,10})?")
FAILED = frozenset({"FAILED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED"})
ENDING = frozenset({"COMPLETING", "STOPPED", "SUSPENDED"})
HELD_AFTER_FAILURE = "job_requeued_in_held_state"
"""Slurm's reason for RequeueExitHold and `requeuehold`. A job that a user holds has another reason."""


class SlurmRequeue:
    """A JobCallback that requeues failed jobs in Slurm, and releases jobs that Slurm requeued and holds.

    Other jobs do not change, such as a job that runs, a job that succeeded or was canceled, or a job that a user holds.
    """

    def __init__(self, connect: Callable[[ClusterConfig], HeadNode]) -> None:
        self._connect = connect

    @property
    def ordered(self) -> bool:
        """Return False: notices may be delivered in any order, so a failed notice delays no other notice."""
        return False

    def deliver(self, notice: JobNotice) -> CallResult:
        """Requeue a job that failed, timed out or was preempted; release a job held after its failure.

        - Returns TIMEOUT while the job is ending or suspended, or if Slurm gives no usable answer, so that the caller
          tries again.
        - Returns NOT_FOUND if the job id is not valid, or if Slurm no longer has the job.
        - Returns PERMISSION_DENIED if Slurm does not requeue the job, or if a permission or a setting is missing.
        - Returns success, and changes nothing, if the job has any other state.
        """
        if not JOB_ID.fullmatch(notice.job_id):
            return CallResult(ProviderFailure.NOT_FOUND, f"not a job id of Slurm: {notice.job_id}")
        return result_of(lambda: self._resume(Scontrol(self._connect(notice.cluster)), notice.job_id))

    def _resume(self, scontrol: Scontrol, job_id: str) -> CallResult:
        found = scontrol.job(job_id)
        if found is None:
            return CallResult(ProviderFailure.NOT_FOUND, f"Slurm has no job {job_id} any longer; raise MinJobAge")
        if found.reason == HELD_AFTER_FAILURE:
            scontrol.release(job_id)
            return CallResult(reason=f"job {job_id} was held after its failure and is released")
        if found.state in ENDING:
            return CallResult(ProviderFailure.TIMEOUT, f"job {job_id} is {found.state.lower()}")
        if found.state not in FAILED:
            return CallResult(reason=f"job {job_id} is {found.state.lower()}: nothing was done")
        if not scontrol.requeue(found):
            return CallResult(ProviderFailure.PERMISSION_DENIED, f"Slurm does not requeue job {job_id}")
        return CallResult(reason=f"job {job_id} was requeued")
