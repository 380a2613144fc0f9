"""Log lines in answers of AWS APIs and log stores, lines that a runtime cut, and dates of other languages."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.decode.frames.container import joined_parts
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.faults import Fault

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
DOUBLE = XID.replace("79", "48", 1)
AT = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
NANOSECONDS = str(int(AT.timestamp()) * 10**9)
HEAD = "2026-02-03T04:05:06.5Z stdout"
RECEIVED = datetime(2026, 11, 24, tzinfo=UTC)


def found(body: str | bytes) -> list[tuple[str, datetime | None]]:
    encoded = body.encode() if isinstance(body, str) else body
    source = registry.recognize(encoded)
    decoded = registry.decode(source, encoded, Hints(received_at=RECEIVED))
    return [(one.code, one.observed_at) for one in decoded if isinstance(one, Fault)]


def test_every_record_in_the_console_output_of_an_instance_is_a_fault() -> None:
    text = f"[    0.000000] Linux version 6.1\r\n[  812.6] {XID}\r\n\r\nip-10-0-0-7 login: [  900.1] {DOUBLE}\r\n"
    body = json.dumps({"InstanceId": "i-0a1b2c3d4e5f60718", "Timestamp": "2026-02-03T05:00:00Z", "Output": text})
    assert [code for code, _ in found(body)] == ["xid.79", "xid.48"]


ANSWERS = {
    "insights": {
        "results": [
            [
                {"field": "@timestamp", "value": "2026-02-03 04:05:06.000"},
                {"field": "@message", "value": f"kernel: {XID}"},
            ]
        ],
        "status": "Complete",
    },
    "otlp": {
        "resourceLogs": [
            {"scopeLogs": [{"logRecords": [{"timeUnixNano": NANOSECONDS, "body": {"stringValue": f"kernel: {XID}"}}]}]}
        ]
    },
    "loki": {"data": {"result": [{"stream": {"job": "kmsg"}, "values": [[NANOSECONDS, f"kernel: {XID}"]]}]}},
    "splunk": {"time": AT.timestamp(), "host": "n1", "sourcetype": "syslog", "event": f"kernel: {XID}"},
    "ssm": {"CommandId": "c-1", "StandardOutputContent": f"2026-02-03T04:05:06Z n1 kernel: {XID}\n"},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_record_in_the_answer_of_a_log_store_has_its_own_time(name: str) -> None:
    assert found(json.dumps(ANSWERS[name])) == [("xid.79", AT)]


def test_other_sources_are_read_from_answers_too() -> None:
    fatal = (
        "[Feb 03 2026 04:05:06] [ERROR] [tid 8] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
    )
    fatal += "00000000:05:00.0 physical id 9 port 30"
    plain = found(fatal)
    assert plain
    assert found(json.dumps({"CommandId": "c-1", "StandardOutputContent": fatal})) == plain


def test_an_answer_without_a_log_line_is_left_to_the_decoders() -> None:
    body = json.dumps({"results": [[{"field": ["x"], "value": 3}]], "event": 5, "Output": None, "InstanceId": "i-1"})
    assert registry.read("slurm-node", b"NodeName=n1 State=DOWN Reason=x").observations
    with pytest.raises(Exception, match="format"):
        registry.recognize(body.encode())


def joined_text(text: bytes) -> bytes:
    return b"".join(joined_parts([text]))


@pytest.mark.parametrize("places", [(1,), (29,), (30,), (8, 20), (5, 29, 40, 60)])
def test_the_parts_of_a_line_that_the_runtime_cut_are_one_record(places: tuple[int, ...]) -> None:
    ends = (*places, len(XID))
    parts = [XID[start:end] for start, end in zip((0, *places), ends, strict=True)]
    lines = [f"{HEAD} {'F' if part is parts[-1] else 'P'} {part}" for part in parts]
    assert found("\n".join(lines) + "\n") == [("xid.79", AT.replace(microsecond=500000))]


def test_parts_are_joined_across_the_pieces_of_a_log() -> None:
    text = f"{HEAD} F first\n{HEAD} P {XID[:29]}\n{HEAD} P {XID[29:40]}\n{HEAD} F {XID[40:]}\n{HEAD} F last\n".encode()
    whole = joined_text(text)
    assert whole == f"{HEAD} F first\n{HEAD} F {XID}\n{HEAD} F last\n".encode()
    for size in range(1, len(text)):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        # A first piece without a whole head is no CRI log, which no reader of files yields.
        if size > len(HEAD) + 4:
            assert b"".join(joined_parts(pieces)) == whole


HEALTH = '{"body": {"GPU": {"children": {"0": {"children": {"Errors": {"children": {"Memory system": {"value": '
HEALTH += '"Failure", "overflow": ["x"]}}}}}}}, "Overall Health": {"value": "Failure"}}, "header": ["Health"]}'


def test_a_document_of_a_container_has_the_time_of_its_line() -> None:
    body = f"{HEAD} P {HEALTH[:70]}\n{HEAD} F {HEALTH[70:]}\n{HEAD.replace('06.5', '07.5')} F {HEALTH}\n"
    decoded = registry.decode("dcgm-health", body.encode())
    assert registry.recognize(body.encode()) == "dcgm-health"
    assert [one.observed_at for one in decoded] == [AT.replace(second=s, microsecond=500000) for s in (6, 7)]


def test_a_line_of_rsyslog_in_json_has_the_time_that_rsyslog_reports() -> None:
    line = {"timereported": "2026-02-03T04:05:06+00:00", "hostname": "n1", "syslogtag": "kernel:", "msg": f" {XID}"}
    assert found(json.dumps(line)) == [("xid.79", AT)]


def test_the_parts_of_two_streams_that_alternate_are_joined_apart() -> None:
    error = HEAD.replace("stdout", "stderr")
    text = f"{HEAD} P one\n{error} F two\n{HEAD} F three\n{error} P four\n".encode()
    assert joined_text(text) == f"{error} F two\n{HEAD} F onethree\n{error} F four\n".encode()


def of_docker(text: str, at: int, stream: str = "stderr", *, compact: bool = True) -> str:
    record = {"log": text, "stream": stream, "time": f"2026-02-03T04:05:{at:02}.5Z"}
    return json.dumps(record, separators=(",", ":") if compact else None) + "\n"


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("places", [(1,), (29,), (30,), (8, 20), (5, 29, 40, 60)])
def test_the_parts_of_a_line_that_docker_cut_are_one_record(places: tuple[int, ...], *, compact: bool) -> None:
    ends = (*places, len(XID))
    parts = [XID[start:end] for start, end in zip((0, *places), ends, strict=True)]
    lines = [
        of_docker(part + "\n" * (part is parts[-1]), 6 + n, compact=compact)
        + of_docker(f"step {n}\n", 6 + n, "stdout", compact=compact)
        for n, part in enumerate(parts)
    ]
    body = "".join(lines)
    assert found(body) == [("xid.79", AT.replace(microsecond=500000))]
    pieces = (body.encode()[at : at + 700] for at in range(0, len(body), 700))
    assert [one.code for one in registry.read_pieces("kernel-log", pieces).observations] == ["xid.79"]


def test_lines_without_line_ends_are_not_taken_for_parts() -> None:
    body = of_docker(XID, 6) + of_docker(DOUBLE, 7)
    assert joined_text(body.encode()) == body.encode()
    assert [code for code, _ in found(body)] == ["xid.79", "xid.48"]


def test_a_backslash_and_an_n_at_the_end_of_a_part_are_no_line_end() -> None:
    text = of_docker("one\\n", 6) + of_docker("two\n", 7) + of_docker("three", 8) + of_docker("four\n", 9)
    assert [json.loads(line)["log"] for line in joined_text(text.encode()).splitlines()] == [
        "one\\ntwo\n",
        "threefour\n",
    ]


@pytest.mark.parametrize(
    ("line", "at"),
    [
        (f"[Mär  3 04:05] {XID}", datetime(2026, 3, 3, 4, 5, tzinfo=UTC)),
        (f"Dez 01 01:02:03 n1 kernel: {XID}", datetime(2025, 12, 1, 1, 2, 3, tzinfo=UTC)),
        (f"févr. 03 04:05:06 n1 kernel: {XID}", AT),
        (f"abc 03 04:05:06 n1 kernel: {XID}", None),
    ],
)
def test_a_month_in_another_language_is_a_time_if_it_has_one_meaning(line: str, at: datetime | None) -> None:
    assert found(line) == [("xid.79", at)]


def test_a_record_that_is_quoted_within_a_record_is_counted() -> None:
    quoted = f"[ 1.000001] {XID} quoted by x: NVRM: Xid (PCI:0000:c1:00): abc"
    decoded = registry.read("kernel-log", quoted.encode())
    assert [one.code for one in decoded.observations if isinstance(one, Fault)] == ["xid.79"]
    assert decoded.unparsed == 1


def test_a_record_that_a_collector_stored_twice_is_one_record() -> None:
    line = {"message": f"kernel: {XID}", "event": {"original": f"kernel: {XID}"}}
    decoded = registry.read("kernel-log", json.dumps(line).encode())
    assert (len(decoded.observations), decoded.unparsed) == (1, 0)
