"""Verdicts on jobs: records why a job died and whether it may restart, as the event `Job Explained`."""

from __future__ import annotations

import re
from datetime import datetime
from hashlib import sha256

from faultbridge.decide.entry_builder import node_list
from faultbridge.decode.data import packaged_json
from faultbridge.model.cluster.jobs import STOP, Job, JobVerdict
from faultbridge.model.entries import Draft
from faultbridge.model.enums import (
    MAX_JOB_EVIDENCE,
    MAX_LISTED,
    Actor,
    CauseDomain,
    EntryType,
    HardwareVerdict,
    Outlook,
)
from faultbridge.model.event_data import JobDevice, JobEvidence, JobExplainedData
from faultbridge.model.values import replace
from faultbridge.model.verdicts import JobVerdictDocument, ShownPoint, ShownSignal
from faultbridge.repair.jobs.changes import JobEntry, JobWriter, step_of

MAX_TEXT = 256
OF_PLACE = frozenset({"platform", "hardware"})
"""Domains whose mechanisms a restart elsewhere, or later, can avoid."""


def record_verdict(
    writer: JobWriter, cluster: str, job_id: str, document: JobVerdictDocument, same_attempts: int | None = None
) -> Job:
    """Record a verdict of `faultbridge explain`, once, and return the job.

    If the job's runs end with the same mechanism, or an unknown one with the same first error, without progress again
    and again, its verdict is STOP, unless the mechanism is of the hardware or the platform. `same_attempts` is the
    limit of the cluster's policy, if it has one; otherwise, as many runs count as attempts in one log.
    """
    job = writer.find(cluster, job_id)
    error = None if document.mechanism else _first_error(document.attempts.error)
    root = document.mechanism or error
    if job is not None and root and document.domain not in OF_PLACE:
        attempts = job.attempts.after(root, step_of(writer.table, job), job.ran)
        limits = packaged_json("explain/weights.json")["limits"]
        packaged = next(one["value"] for one in limits if one["name"] == "same_attempts")
        if attempts.repeated >= (same_attempts or packaged):
            document = replace(document, verdict=STOP, nodes=())
    verdict = JobVerdict(document.verdict, document.nodes, document.mechanism, document.hardware.state, error)

    def update(before: Job | None, _: datetime) -> Job | None:
        return None if before is None or before.verdict == verdict else replace(before, verdict=verdict)

    def entry(job: Job, now: datetime) -> JobEntry:
        cases = {repair.case_id for repair in document.repairs}
        draft = Draft(EntryType.JOB_EXPLAINED, now, explained_data(job, document), job_ids=(job.id,))
        return JobEntry(replace(draft, case_id=cases.pop() if len(cases) == 1 else None), Actor.CLI)

    return writer.write(cluster, job_id, update, entry)


def _first_error(found: ShownSignal | None) -> str | None:
    """Return the hash of the first error of the last attempt, without its numbers; None if the logs show none."""
    return sha256(re.sub(r"\d+", "0", found.text).encode()).hexdigest()[:16] if found else None


def explained_data(job: Job, document: JobVerdictDocument) -> JobExplainedData:
    """Return the entry's data; log lines are named by number, because they may contain secrets."""
    cause = document.causes[0] if document.causes and document.mechanism else None
    points = (*cause.pro, *cause.against) if cause else ()
    return JobExplainedData(
        job_id=job.id,
        name=job.name,
        verdict=Outlook(document.verdict),
        nodes=node_list(document.nodes),
        check=node_list(document.check),
        domain=CauseDomain(document.domain) if document.mechanism else None,
        mechanism=document.mechanism,
        summary=document.summary,
        settles=document.settles,
        hardware=HardwareVerdict(document.hardware.state),
        checked=node_list(document.hardware.checked),
        not_checked=node_list(document.hardware.not_checked),
        ranks=document.collectives.ranks[:MAX_LISTED] if document.collectives else (),
        devices=tuple(map(_shortened, document.devices[:MAX_LISTED])),
        evidence=tuple(map(_point, points[:MAX_JOB_EVIDENCE])),
        cases=tuple(sorted({one.case_id for one in document.repairs})[:MAX_LISTED]),
        started_at=job.started_at,
        ended_at=job.ended_at,
        failed_at=document.failed_at,
    )


def _shortened(device: JobDevice) -> JobDevice:
    pci, uuid, serial = (text and text[:MAX_TEXT] for text in (device.pci, device.uuid, device.serial))
    return replace(device, pci=pci, uuid=uuid, serial=serial)


def _point(point: ShownPoint) -> JobEvidence:
    signal = point.signal
    facts = {name: getattr(signal, name, None) for name in ("name", "trust", "node", "rank", "line", "at")}
    return JobEvidence(
        weight=point.weight, points=point.points, file=signal.file[-MAX_TEXT:] if signal else None, **facts
    )
