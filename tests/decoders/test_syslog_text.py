"""Text of syslog is a claim: any program can write the tag of the kernel or of the fabric manager into it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.decide.normalize.trust import is_claim
from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import Clear, Fault, Observation

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
CLEARED = "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
SWITCH = "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:C1:00.0 physical id 2 port 4"
HEADED = f"[Feb 03 2026 04:05:06] [ERROR] [tid 812] {SWITCH}"
UNIT = "nvidia-fabricmanager.service: Failed with result 'exit-code'."
RFC3164, ISO = "Feb  3 12:00:00 node-1", "2026-02-03T12:00:00.000000+00:00 node-1"


def read(source: str, line: str) -> Observation:
    (observation,) = registry.decode(source, line.encode(), Hints(NOON))
    return observation


@pytest.mark.parametrize(
    "line",
    [
        f"{RFC3164} kernel: {XID}",
        f"{RFC3164} kernel[4711]: {XID}",
        f"{RFC3164} kernel: [ 8123.617543] {XID}",
        f"{RFC3164} {XID}",  # the tag NVRM
        f"{RFC3164} NVRM: [ 8123.617543] {XID}",
        f"{RFC3164} [ 8123.617543] {XID}",  # the tag `[`
        f"<3>{RFC3164} kernel: {XID}",
        f"{ISO} kernel: {XID}",
        f"{ISO} {XID}",
        f"{ISO} [ 8123.617543] {XID}",
        f"{ISO} | {XID}",
        f"{ISO} login: {XID}",
        f'{ISO} NVRM: {{"_TRANSPORT": "kernel", "MESSAGE": "{XID}"}}',
        f"<3>1 2026-02-03T12:00:00Z node-1 kernel - - - {XID}",
        f"2026-02-03 12:00:00 node-1 kernel: {XID}",
        f"Tue Feb  3 12:00:00 2026 node-1 kernel: {XID}",
        f"1770120000.000 node-1 kernel: {XID}",
        f"node-1 kernel: {XID}",
        f"some-collector {XID}",
        json.dumps({"log": f"{RFC3164} kernel: {XID}"}),
        json.dumps({"ident": "kernel", "message": XID}),
        json.dumps({"SYSLOG_IDENTIFIER": "kernel", "MESSAGE": XID}),
    ],
)
def test_a_kernel_line_that_a_program_could_have_written_is_a_claim(line: str) -> None:
    fault = read("kernel-log", line)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.severity) == ("xid.79", None)
    assert is_claim(fault)


@pytest.mark.parametrize(
    "line",
    [
        f"3,1234,8123617543,-;{XID}",
        f"[ 8123.617543] {XID}",
        f"[Tue Feb  3 12:00:00 2026] {XID}",
        f"<3>[ 8123.617543] {XID}",
        f"kern  :err   : [ 8123.617543] {XID}",
        f"kern  :err   : 2026-02-03T12:00:00,123456+00:00 {XID}",
        f"2026-02-03T12:00:00,123456+00:00 {XID}",
        f"2026-02-03T12:00:00.123456789Z stdout F [ 8123.617543] {XID}",
        json.dumps({"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": XID}),
        json.dumps({"log": f"[ 8123.617543] {XID}", "kubernetes": {"host": "node-1"}}),
        XID,
    ],
)
def test_a_line_of_kmsg_dmesg_or_the_journal_of_the_kernel_is_no_claim(line: str) -> None:
    fault = read("kernel-log", line)
    assert isinstance(fault, Fault)
    assert fault.code == "xid.79"
    assert not is_claim(fault)


@pytest.mark.parametrize("source", ["fabric-manager-log", "kernel-log"])
@pytest.mark.parametrize(
    "line",
    [
        f"{RFC3164} nv-fabricmanager[99]: {SWITCH}",
        f"{RFC3164} nv-fabricmanager[99]: {HEADED}",
        f"{RFC3164} user: {HEADED}",
        f"{RFC3164} systemd[1]: {UNIT}",
        json.dumps({"_TRANSPORT": "syslog", "SYSLOG_IDENTIFIER": "nv-fabricmanager", "MESSAGE": SWITCH}),
    ],
)
def test_a_line_of_a_service_that_a_program_could_have_written_is_a_claim(line: str, source: str) -> None:
    body = f"[ 1.000000] Linux version 6.1\n{line}" if source == "kernel-log" else line
    assert is_claim(read(source, body))


@pytest.mark.parametrize(
    "line",
    [
        HEADED,
        f"2026-02-03T12:00:00.123456789Z stdout F {HEADED}",
        SWITCH,
        UNIT,
        json.dumps({"_SYSTEMD_UNIT": "nvidia-fabricmanager.service", "MESSAGE": SWITCH}),
        json.dumps(
            {
                "_SYSTEMD_UNIT": "nvidia-fabricmanager.service",
                "SYSLOG_IDENTIFIER": "nv-fabricmanager",
                "MESSAGE": SWITCH,
            }
        ),
    ],
)
def test_a_line_of_the_log_file_or_of_the_journal_of_the_unit_is_no_claim(line: str) -> None:
    assert not is_claim(read("fabric-manager-log", line))


def test_a_clear_in_text_of_syslog_is_a_claim_too() -> None:
    clear = read("kernel-log", f"{RFC3164} kernel: {CLEARED}")
    assert isinstance(clear, Clear)
    assert is_claim(clear)


def test_a_line_of_another_program_stays_information() -> None:
    fault = read("kernel-log", f"<14>{RFC3164} kernel: {XID}")
    assert isinstance(fault, Fault)
    assert fault.severity is Severity.INFO
