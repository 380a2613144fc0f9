"""The host and the time that a frame states, and bodies in gzip and UTF-16, are used by every decoder of lines."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.decode.frames.body import unpacked
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Fault

AT = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
HINTS = Hints(received_at=AT)
NANOSECONDS = "1770091506000000000"
INSTANCE = "i-0a1b2c3d4e5f60718"
LINES = {
    "kernel-log": "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    "fabric-manager-log": "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:07:00.0",
    "device-plugin-log": "XidCriticalError: Xid=79 on Device=GPU-0a1b2c3d-0000-0000-0000-000000000001; marking device",
    "training-log": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
}


def otlp(line: str, host: list[dict[str, Any]], of_record: list[dict[str, Any]] | None = None) -> str:
    record = {"timeUnixNano": NANOSECONDS, "body": {"stringValue": line}, "attributes": of_record or []}
    return json.dumps({"resourceLogs": [{"resource": {"attributes": host}, "scopeLogs": [{"logRecords": [record]}]}]})


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def loki(line: str, labels: dict[str, str], *metadata: dict[str, str]) -> str:
    streams = [{"stream": labels, "values": [[NANOSECONDS, line, *metadata]]}]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": streams}})


def logs(line: str, stream: str) -> str:
    events = [{"id": "1", "timestamp": 1770091506000, "message": line}]
    return json.dumps({"messageType": "DATA_MESSAGE", "logStream": stream, "logEvents": events})


FRAMES = {
    "OTLP, resource": lambda line: otlp(line, [attribute("service.name", "x"), attribute("host.name", "n-7")]),
    "OTLP, node and pod": lambda line: otlp(line, [attribute("host.name", "pod"), attribute("k8s.node.name", "n-7")]),
    "OTLP, record": lambda line: otlp(line, [], [attribute("host.name", "n-7")]),
    "Loki": lambda line: loki(line, {"job": "x", "host": "n-7"}),
    "Loki, node_name": lambda line: loki(line, {"node_name": "n-7"}),
    "Loki, metadata": lambda line: loki(line, {"job": "x"}, {"host": "n-7"}),
    "Loki, logcli": lambda line: json.dumps({"labels": {"host": "n-7"}, "line": line, "timestamp": AT.isoformat()}),
    "Splunk": lambda line: json.dumps({"time": 1770091506, "host": "n-7", "event": line}),
    "Filebeat": lambda line: json.dumps({"@timestamp": AT.isoformat(), "host": {"name": "n-7"}, "message": line}),
    "GCP": lambda line: json.dumps(
        {
            "textPayload": line,
            "timestamp": AT.isoformat(),
            "resource": {"type": "k8s_node", "labels": {"node_name": "n-7", "cluster_name": "c"}},
        }
    ),
    "Fluent Bit": lambda line: json.dumps({"date": 1770091506, "log": line, "kubernetes": {"host": "n-7"}}),
}  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("source", LINES)
def test_a_fault_has_the_host_and_the_time_of_its_frame(source: str, frame: Any) -> None:
    (fault,) = registry.decode(source, frame(LINES[source]).encode())
    assert (fault.node, fault.observed_at) == ("n-7", AT)


@pytest.mark.parametrize("source", LINES)
@pytest.mark.parametrize("stream", [INSTANCE, f"agent/train/{INSTANCE}"])
def test_a_fault_in_a_log_stream_of_an_instance_is_of_that_instance(source: str, stream: str) -> None:
    (fault,) = registry.decode(source, logs(LINES[source], stream).encode())
    assert (fault.node, fault.observed_at) == (INSTANCE, AT)


def test_a_host_in_the_line_precedes_the_host_of_its_log_stream() -> None:
    line = f"2026-02-03T04:05:06Z n-7 kernel: {LINES['kernel-log']}"
    assert registry.decode("kernel-log", logs(line, INSTANCE).encode())[0].node == "n-7"


def test_the_console_output_of_an_instance_is_of_that_instance() -> None:
    body = json.dumps({"InstanceId": INSTANCE, "Output": f"[ 12.000001] {LINES['kernel-log']}\n"})
    assert [one.node for one in registry.decode("kernel-log", body.encode())] == [INSTANCE]


LOG = "".join(f"[ 81{n:02}.617543] {LINES['kernel-log']}\n" for n in range(99)).encode()
PACKED = {
    "gzip": gzip.compress(LOG),
    "two gzip members": gzip.compress(LOG[:1000]) + gzip.compress(LOG[1000:]),
    "UTF-16": LOG.decode().encode("utf-16"),
    "UTF-16 in gzip": gzip.compress(LOG.decode().encode("utf-16")),
}


@pytest.mark.parametrize("body", PACKED.values(), ids=PACKED)
def test_a_packed_log_is_read_whole_and_in_pieces(body: bytes) -> None:
    assert registry.recognize(body) == "kernel-log"
    expected = registry.read("kernel-log", LOG)
    assert registry.read("kernel-log", body) == expected
    for size in (3, 100, len(body)):
        pieces = (body[at : at + size] for at in range(0, len(body), size))
        assert registry.read_pieces("kernel-log", pieces) == expected


def test_secrets_of_a_packed_body_can_be_masked() -> None:
    assert unpacked(PACKED["UTF-16 in gzip"]) == LOG


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (gzip.compress(LOG)[:-20], "truncated"),
        (gzip.compress(gzip.compress(LOG)), "malformed_envelope"),
        (gzip.compress(LOG)[:30] + b"x" * 90, "malformed_envelope"),
    ],
)
def test_a_packed_body_that_cannot_be_read_is_rejected(body: bytes, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.read("kernel-log", body)
    assert rejected.value.reason == reason


def test_a_body_that_unpacks_to_more_than_the_limit_is_rejected() -> None:
    with pytest.raises(Rejected, match="more than 1000 bytes"):
        unpacked(gzip.compress(LOG), 1000)


def test_a_fault_of_a_message_of_many_lines_has_the_time_of_its_own_line() -> None:
    text = f"reader starts\n[Tue Feb  3 04:00:00 2026] {LINES['kernel-log']}"
    (fault,) = registry.decode("kernel-log", json.dumps({"log": text, "time": AT.isoformat()}).encode())
    assert isinstance(fault, Fault)
    assert fault.observed_at == AT.replace(minute=0, second=0)


PLAIN = {
    "bare": LINES["kernel-log"],
    "uptime": f"[ 8123.617543] {LINES['kernel-log']}\n",
    "kmsg": f"3,1,8123617543,-;{LINES['kernel-log']}\n",
    "dmesg": f"2026-02-03T04:05:06,000000+00:00 {LINES['kernel-log']}",
    "recovery": "[ 8123.617543] NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
    "(Node Reboot Required)",
    "recovered": "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x2 (Node Reboot) to 0x0 (None)",
}


@pytest.mark.parametrize("line", PLAIN.values(), ids=PLAIN)
def test_a_record_of_one_plain_line_is_read_as_the_same_line_in_a_log(line: str) -> None:
    log = registry.read("kernel-log", f"\n{line}".encode(), HINTS)
    assert registry.read("kernel-log", line.encode(), HINTS) == log
    assert len(log.observations) == 1


def test_a_document_in_a_journal_that_is_printed_over_many_events_is_read() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n-7"},
        "status": {"conditions": [{"type": "MemoryPressure", "status": "True", "message": "x"}]},
    }
    entry = json.dumps({"__REALTIME_TIMESTAMP": "1770091506000000", "MESSAGE": json.dumps(document)}, indent=4)
    events = [{"id": "1", "timestamp": 1770091507000, "message": line} for line in entry.split("\n")]
    body = json.dumps({"messageType": "DATA_MESSAGE", "logStream": "x", "logEvents": events})
    (snapshot,) = registry.decode("kubernetes-node", body.encode())
    assert (snapshot.node, snapshot.observed_at) == ("n-7", AT)
