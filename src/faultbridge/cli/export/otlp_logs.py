"""Entries as OpenTelemetry logs: follows the timelines of clusters, and sends each entry once for each run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from faultbridge.cli.export.api_client import PAGE_SIZE, ApiClient
from faultbridge.model.times import from_text, to_text

OVERLAP = timedelta(minutes=2)
"""Each read starts this long before the last one, because an entry may become readable after a later one."""

REMEMBERED = 50_000
"""Number of entry ids that are remembered, so that the overlap sends no entry twice."""

SEVERITIES = {
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
    "fatal": SeverityNumber.FATAL,
}


def open_provider(endpoint: str) -> LoggerProvider:
    """Return a provider that posts logs to `endpoint`/v1/logs; OTEL_EXPORTER_OTLP_HEADERS has credentials."""
    provider = LoggerProvider(Resource.create({"service.name": "faultbridge"}))
    provider.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{endpoint.rstrip('/')}/v1/logs"))
    )
    return provider


class EntryLogs:
    """Sends new entries of clusters as logs; `clusters` is empty for all, and `since` is when the first read starts."""

    def __init__(self, api: ApiClient, provider: LoggerProvider, clusters: Sequence[str], since: datetime) -> None:
        self._api, self._logger, self._clusters = api, provider.get_logger("faultbridge.entries"), clusters
        self._since = since
        self._seen: deque[str] = deque(maxlen=REMEMBERED)

    def send_new(self) -> int:
        """Send the entries recorded since the last read, and return their number."""
        names = self._clusters or [one["cluster"] for one in self._api.items("clusters")]
        known, sent, newest = set(self._seen), 0, self._since
        for name in names:
            since = to_text(self._since - OVERLAP) if self._seen else to_text(self._since)
            for entry in self._api.items("clusters", name, "entries", since=since, limit=PAGE_SIZE):
                metadata = entry["metadata"]
                newest = max(newest, from_text(metadata["recorded_at"]))
                if metadata["event_id"] not in known:
                    self._logger.emit(log_record(entry))
                    self._seen.append(metadata["event_id"])
                    sent += 1
        self._since = newest
        return sent


def log_record(entry: dict[str, Any]) -> LogRecord:
    """Return an entry as a log: its body is the entry, and its attributes are those of its CloudEvent and its node."""
    metadata = entry["metadata"]
    severity = metadata.get("severity")
    attributes = {
        "cloudevents.event_id": metadata["event_id"],
        "cloudevents.event_source": "faultbridge",
        "cloudevents.event_spec_version": "1.0",
        "cloudevents.event_type": metadata["event_type"],
        "cloudevents.event_subject": metadata["stream"],
        "faultbridge.cluster": metadata["cluster"],
        "faultbridge.node": metadata.get("node"),
        "faultbridge.case_id": metadata.get("case_id"),
        "faultbridge.hash": entry["hash"],
    }
    return LogRecord(
        timestamp=_nanoseconds(metadata["occurred_at"]),
        observed_timestamp=_nanoseconds(metadata["recorded_at"]),
        severity_text=severity,
        severity_number=SEVERITIES.get(severity, SeverityNumber.UNSPECIFIED),
        event_name=metadata["event_type"],
        body=entry,
        attributes={name: value for name, value in attributes.items() if value is not None},
    )


def _nanoseconds(text: str) -> int:
    return round(from_text(text).timestamp() * 1000) * 1_000_000
