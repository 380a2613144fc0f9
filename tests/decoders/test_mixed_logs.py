"""Logs of several sources in one input: each record is read, or counted, and has the time of its own event."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.model.faults import Fault, faults_of

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
PANIC = "Kernel panic - not syncing: Fatal exception"
SWITCH = "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:07:00.0 physical id 2 port 30"
WARNING = (
    "detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:07:00.0 physical id 2 port 30"
)
CONFIGURED = "Successfully configured all the available NVSwitches to route GPU NVLink traffic."
TIMEOUT = (
    "[rank0]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
    "before timing out."
)
START = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
HINTS = Hints(received_at=START + timedelta(days=1))


def read(source: str, text: str) -> Decoded:
    return registry.read(source, text.encode(), HINTS)


def codes(decoded: Decoded) -> list[str]:
    return [fault.code for one in decoded.observations for fault in faults_of(one)]


def times(decoded: Decoded) -> list[datetime | None]:
    return [one.observed_at for one in decoded.observations]


def entry(program: str, text: str) -> str:
    transport = "kernel" if program == "kernel" else "stdout"
    return json.dumps({"SYSLOG_IDENTIFIER": program, "_TRANSPORT": transport, "MESSAGE": text})


def envelope(*messages: str) -> str:
    """Return an envelope of CloudWatch Logs with one event an hour."""
    events = [{"id": "1", "timestamp": 1770091506000 + 3_600_000 * n, "message": one} for n, one in enumerate(messages)]
    return json.dumps({"messageType": "DATA_MESSAGE", "logStream": "x", "logEvents": events})


@pytest.mark.parametrize("harmless", [1, 2000])
@pytest.mark.parametrize("record", [XID, PANIC])
@pytest.mark.parametrize(("switch", "code"), [(SWITCH, "sxid.20034"), (WARNING, "sxid.12028")])
def test_a_syslog_of_the_kernel_and_the_fabric_manager_yields_the_faults_of_both(
    harmless: int, record: str, switch: str, code: str
) -> None:
    quiet = "".join(f"Feb  3 04:05:06 n7 kernel: audit: type=1400 audit(1.{n}:1): x\n" for n in range(harmless))
    of_kernel, of_service = (
        f"Feb  3 04:05:06 n7 kernel: {record}\n",
        f"Feb  3 04:05:07 n7 nv-fabricmanager[12]: {switch}\n",
    )
    expected = {"xid.79" if record == XID else "host.kernel_panic", code}
    for text in (quiet + of_kernel + of_service + quiet, quiet + of_service + quiet + of_kernel):
        assert registry.recognize(text.encode()) == "kernel-log"
        for source in ("kernel-log", "fabric-manager-log"):
            decoded = read(source, text)
            assert set(codes(decoded)) == expected
            assert set(times(decoded)) == {START, START + timedelta(seconds=1)}


@pytest.mark.parametrize("service", [CONFIGURED, SWITCH])
@pytest.mark.parametrize("record", [XID, PANIC])
def test_a_journal_of_the_kernel_and_the_fabric_manager_yields_the_faults_of_both(record: str, service: str) -> None:
    text = f"{entry('kernel', record)}\n{entry('nv-fabricmanager', service)}\n"
    found = codes(read(registry.recognize(text.encode()), text))
    assert set(found) == {"xid.79" if record == XID else "host.kernel_panic"} | (
        {"sxid.20034"} if service == SWITCH else set()
    )


def test_a_healthy_log_of_the_kernel_and_the_fabric_manager_yields_nothing() -> None:
    text = f"Feb  3 04:05:06 n7 kernel: usb 1-1: new\nFeb  3 04:05:06 n7 nv-fabricmanager[12]: {CONFIGURED}\n"
    for source in ("kernel-log", "fabric-manager-log"):
        assert read(source, text) == Decoded(())


@pytest.mark.parametrize(
    ("source", "text", "code"),
    [
        ("training-log", TIMEOUT, "train.nccl_timeout"),
        ("slurm-node", "[2026-02-03T04:05:06.001] update_node: node n7 state set to DRAINED", "host.drained"),
    ],
)
@pytest.mark.parametrize(
    "record", [f"[ 4000.000002] {XID}", f"Feb  3 04:05:06 n7 kernel: {XID}", f"[ 4000.000002] {PANIC}"]
)
def test_a_record_of_the_kernel_in_a_log_that_others_write_is_counted_beside_its_faults(
    source: str, text: str, code: str, record: str
) -> None:
    decoded = read(source, f"{text}\n{record}\n")
    assert (codes(decoded), decoded.unparsed) == ([code], 1)
    in_envelope = read(source, envelope(text, "x", record))
    assert (codes(in_envelope), in_envelope.unparsed) == ([code], 1)


def test_a_quotation_of_the_kernel_does_not_become_a_record_of_it() -> None:
    document = json.dumps({"kind": "Node", "metadata": {"name": "n"}, "message": f"[ 812.6] {XID}"})
    body = f"[Feb 03 2026 04:05:06] [ERROR] [tid 8] {WARNING}\n{document}\n"
    assert codes(read("fabric-manager-log", body)) == ["sxid.12028"]


@pytest.mark.parametrize("between", ["x", "Connected to 1 node", ""])
def test_each_fault_has_the_time_of_its_own_event_beside_events_of_other_kinds(between: str) -> None:
    decoded = read("fabric-manager-log", envelope("x", SWITCH, between, SWITCH.replace("20034", "20009"), between))
    assert codes(decoded) == ["sxid.20034", "sxid.20009"]
    assert times(decoded) == [START + timedelta(hours=1), START + timedelta(hours=3)]


def test_the_same_fault_in_two_events_has_two_times() -> None:
    decoded = read("fabric-manager-log", envelope("x", SWITCH, "y", SWITCH))
    assert times(decoded) == [START + timedelta(hours=1), START + timedelta(hours=3)]


def test_a_fault_of_a_training_job_has_the_time_of_its_line() -> None:
    (fault,) = read("training-log", envelope("iteration 12/100 | lm loss: 1.2", "foo", TIMEOUT, "bar")).observations
    assert fault.observed_at == START + timedelta(hours=2)


def test_lines_of_a_container_runtime_keep_their_own_times() -> None:
    lines = [f"2026-02-03T0{4 + n}:05:06Z stdout F {text}" for n, text in enumerate(("x", SWITCH, "y", WARNING))]
    decoded = read("fabric-manager-log", "\n".join(lines))
    assert times(decoded) == [START + timedelta(hours=1), START + timedelta(hours=3)]


def test_a_record_of_the_kernel_in_an_envelope_of_the_fabric_manager_has_its_own_time() -> None:
    decoded = read("fabric-manager-log", envelope("x", f"[ 812.617543] {PANIC}", WARNING))
    assert {one.code: one.observed_at for one in decoded.observations if isinstance(one, Fault)} == {
        "sxid.12028": START + timedelta(hours=2),
        "host.kernel_panic": START + timedelta(hours=1),
    }
