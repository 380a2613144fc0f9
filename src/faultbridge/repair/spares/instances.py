"""What the instance of a spare shows: the result of its verification, and the case in its tag."""

from __future__ import annotations

from dataclasses import replace

from faultbridge.decode.frames.gpus import missing_gpus
from faultbridge.model.cluster.state import Spare, SpareStatus, is_taken
from faultbridge.record.ports import Launcher, LaunchRequest, Verdict, Verification
from faultbridge.repair.attempt.verification_rules import joined_findings


def case_of_instance(launcher: Launcher, request: LaunchRequest, spare: Spare) -> str | None:
    """Return the id of the case in the tag of a spare's instance, or None if this case took the spare.

    The result is None too if the tag names the pool, or the provider does not list the instance. After a restore from a
    backup, an instance with such a tag may serve a node. Diagnostics, a termination or another case would stop its
    jobs.
    """
    if spare.instance_id is None or spare.status is SpareStatus.LAUNCHING:
        return None
    listed = launcher.launched(replace(request, spare=spare.instance_id))
    tags = (one.case for one in listed if one.instance_id == spare.instance_id)
    return next((tag for tag in tags if is_taken(tag, spare.case)), None)


def failure_of(found: Verification, spare: Spare) -> str:
    """Return why an ended verification of a spare failed; empty if it did not fail."""
    if found.verdict is Verdict.FAILED:
        return joined_findings(found.findings) or "the verification failed"
    return (missing_gpus(found.gpus, spare.instance_type) or "") if found.verdict is Verdict.PASSED else ""
