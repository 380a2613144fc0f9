"""The exporter: converts documents of the HTTP API to Prometheus metrics, and entries to OpenTelemetry logs.

`METRICS` lists each metric with its labels and the function that yields its values from the state of one cluster. Names
follow the rules of OpenMetrics. `EntryLogs` follows the timelines of clusters, and sends each entry once for each run.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from faultbridge.cli.commands.records.servers import PAGE_SIZE, ApiClient
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.log import log_cause
from faultbridge.model.times import from_text, to_text

Sample = tuple[tuple[str, ...], float]
"""The values of the labels after `cluster`, and the value of the metric."""

STATUS_NUMBERS = {status.value: number for number, status in enumerate(NodeStatus)}
"""The value of `faultbridge_node_state` for each status; the dashboard shows the names."""


@dataclass(frozen=True, slots=True)
class ClusterDocuments:
    """The documents of one cluster, as the API returned them."""

    cluster: dict[str, Any]
    nodes: Sequence[dict[str, Any]]
    cases: Sequence[dict[str, Any]]
    incidents: Sequence[dict[str, Any]]

    @property
    def conditions(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield each node with each of its active conditions."""
        return ((node, condition) for node in self.nodes for condition in node["conditions"])


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge: its name, its help text, its labels after `cluster`, and what yields its values."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Callable[[ClusterDocuments], Iterable[Sample]]


def _counted(found: Iterable[tuple[str, ...]]) -> Iterable[Sample]:
    return ((labels, float(count)) for labels, count in sorted(Counter(found).items()))


def _gpu_faults(read: ClusterDocuments) -> Iterator[Sample]:
    for node, one in read.conditions:
        component = one["component"]
        if component["type"] == "gpu":
            gpu = str(component["uuid"] or component["serial"] or component["pci"] or component["index"])
            for code in one["codes"]:
                yield (node["node"], gpu, one["failure_mode"], code), float(one["count"])


def _budget_left(read: ClusterDocuments) -> Iterator[Sample]:
    permitted = read.cluster.get("repairs_permitted")
    if permitted is not None:
        yield (), float(max(permitted - len(read.cluster["holders"]), 0))


def _stated(name: str) -> Callable[[ClusterDocuments], Iterable[Sample]]:
    """Return a function that yields the value of a field of the cluster, unless it is unknown."""
    return lambda read: [] if read.cluster[name] is None else [((), float(read.cluster[name]))]


METRICS: tuple[Metric, ...] = (
    Metric(
        "faultbridge_node_last_report_timestamp_seconds",
        "When the last report of each node arrived, and from which source; absent if none ever did.",
        ("node", "source"),
        lambda read: (
            ((node["node"], last["source"]), from_text(last["at"]).timestamp())
            for node in read.nodes
            if (last := node["last_report"])
        ),
    ),
    Metric("faultbridge_reporting_nodes", "Nodes whose reports arrive.", (), _stated("reporting")),
    Metric("faultbridge_never_reported_nodes", "Nodes that never reported.", (), _stated("never_reported")),
    Metric(
        "faultbridge_nodes",
        "Nodes by status.",
        ("status",),
        lambda read: _counted((node["status"],) for node in read.nodes),
    ),
    Metric("faultbridge_target_nodes", "Nodes that the cluster should have.", (), _stated("target")),
    Metric(
        "faultbridge_node_state",
        "Status of each node: " + ", ".join(f"{number} {name}" for name, number in STATUS_NUMBERS.items()) + ".",
        ("node", "group"),
        lambda read: (
            ((node["node"], node["group"] or ""), float(STATUS_NUMBERS[node["status"]]))
            for node in read.nodes
            if node["status"] in STATUS_NUMBERS
        ),
    ),
    Metric(
        "faultbridge_conditions",
        "Active conditions by failure mode and severity.",
        ("failure_mode", "severity"),
        lambda read: _counted((one["failure_mode"], one["severity"]) for _, one in read.conditions),
    ),
    Metric(
        "faultbridge_gpu_condition_observations",
        "Observations of each active condition of a GPU, such as ECC errors, row remapping and Xids, by fault code.",
        ("node", "gpu", "failure_mode", "code"),
        _gpu_faults,
    ),
    Metric(
        "faultbridge_cases",
        "Live cases by status, and by what they wait for.",
        ("status", "waiting_for"),
        lambda read: _counted((case["status"], case["waiting_for"] or "") for case in read.cases),
    ),
    Metric(
        "faultbridge_incident_nodes",
        "Affected nodes of each open incident.",
        ("incident", "family", "status"),
        lambda read: [((one["incident_id"], one["family"], one["status"]), one["affected"]) for one in read.incidents],
    ),
    Metric(
        "faultbridge_repairs_running",
        "Cases that use a repair slot.",
        (),
        lambda read: [((), len(read.cluster["holders"]))],
    ),
    Metric("faultbridge_repairs_left", "Repairs that the policy still permits at this time.", (), _budget_left),
    Metric("faultbridge_repairs_paused", "1 while an operator has paused new repairs.", (), _stated("paused")),
    Metric(
        "faultbridge_breaker_open",
        "1 while a breaker is not closed.",
        ("breaker",),
        lambda read: [((one["name"],), float(one["state"] != "closed")) for one in read.cluster["breakers"]],
    ),
)


class FleetCollector(Collector):
    """Reads the API when it is scraped, at most once in `interval` seconds; a failed read gives `faultbridge_up` 0."""

    def __init__(
        self, api: ApiClient, clusters: Sequence[str], interval: float, monotonic: Callable[[], float]
    ) -> None:
        self._api, self._clusters, self._interval, self._monotonic = api, clusters, interval, monotonic
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._documents: tuple[ClusterDocuments, ...] | None = None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield no metric, so that a registration does not read the API."""
        yield from ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics; after a failed read only `faultbridge_up`, so that no old value looks current."""
        documents = self._current()
        yield GaugeMetricFamily(
            "faultbridge_up", "1 if the last read of the API succeeded.", float(documents is not None)
        )
        for metric in METRICS if documents is not None else ():
            family = GaugeMetricFamily(metric.name, metric.help, labels=["cluster", *metric.labels])
            for read in documents or ():
                for labels, value in metric.values(read):
                    family.add_metric([read.cluster["cluster"], *labels], value)
            yield family

    def _current(self) -> tuple[ClusterDocuments, ...] | None:
        with self._lock:
            now = self._monotonic()
            if self._read_at is None or now - self._read_at >= self._interval:
                self._read_at = now
                try:
                    self._documents = tuple(map(self._read, self._clusters or self._api.clusters()))
                except FaultbridgeError as error:
                    log_cause("api_not_read", reason=str(error))
                    self._documents = None
            return self._documents

    def _read(self, cluster: str) -> ClusterDocuments:
        place = ("clusters", cluster)
        return ClusterDocuments(
            cluster=self._api.get(*place),
            nodes=[one for one in self._api.items(*place, "nodes", limit=PAGE_SIZE) if one["status"] != "retired"],
            cases=list(self._api.items(*place, "cases")),
            incidents=list(self._api.items(*place, "incidents")),
        )


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
        names = self._clusters or self._api.clusters()
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
