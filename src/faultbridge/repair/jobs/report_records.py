"""Report records: records job reports that arrive as raw records, from the event bus or a collector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from faultbridge.model.cluster.jobs import Job
from faultbridge.model.dataclass import dataclass
from faultbridge.model.errors import Rejected, Transient, UnknownName
from faultbridge.model.records import Outcome, RawRecord
from faultbridge.model.storage.wire.decode_message import is_cloud_event
from faultbridge.repair.jobs.reports import MAX_REPORT, RecordReport, read_report

WAIT_FOR_START = timedelta(minutes=2)
"""How long a report about an unknown job is retried, because queues deliver in any order."""


@dataclass(frozen=True, slots=True)
class RecordReportRecord:
    """Records the job report that a raw record contains.

    The body of the record is the report itself, or an event whose `detail` is the report.
    """

    record_report: RecordReport

    def __call__(self, record: RawRecord) -> Outcome:
        """Record the job report in a raw record, and return what happened to the record.

        Returns FOLDED for a heartbeat, DUPLICATE if the report changed nothing, and RECORDED otherwise. Raises Rejected
        `bad_report` and the errors of `RecordReport.record`. For an unknown job, it raises Transient until two
        minutes after the receipt of the record, because the report of the job's start may arrive later.
        """
        if len(record.body) > MAX_REPORT:
            raise Rejected("bad_report", f"the report is too large; allowed: {MAX_REPORT} bytes")
        try:
            document = json.loads(record.body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise Rejected("bad_report", "the report is not a JSON object")
        is_event = is_cloud_event(document)
        detail = document["detail"] if is_event else document
        report = read_report({name: value for name, value in detail.items() if name != "cluster"})
        before = self.record_report.jobs.find(record.cluster, report["job_id"])
        after = self._record(record, report, watched=not is_event)
        if report["change"] == "heartbeat":
            return Outcome.FOLDED
        return Outcome.DUPLICATE if before is not None and before.version == after.version else Outcome.RECORDED

    def _record(self, record: RawRecord, report: Mapping[str, Any], *, watched: bool) -> Job:
        try:
            return self.record_report.record(record.cluster, report, record.sent_at, watched=watched)
        except UnknownName as error:
            age = self.record_report.jobs.clock.now() - record.received_at
            if error.reason != "unknown_job" or age >= WAIT_FOR_START:
                raise
            raise Transient(f"the start of the job may still arrive: {error}") from error
