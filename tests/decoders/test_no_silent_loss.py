"""Each record is decoded, whatever surrounds it, or counted as not understood."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime
from functools import cache

import pytest

from faultbridge.decode import registry
from faultbridge.decode.frames.joined_lines import MAX_PARTS
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Fault, faults_of
from tests.decoders.builders import FABRIC, HEALTH, awslogs
from tests.decoders.wrapping import PADDINGS, RECORDS, WRAPPERS, Combination, combinations
from tests.loops import for_each

SLICE = 2000
IN_A_LOG = 50_000


@cache
def all_combinations() -> list[Combination]:
    """Return the half million combinations, made at first use: most test processes need none of them."""
    return list(combinations())


def codes_in(one: Combination, padding: str) -> list[str]:
    return [found.code for found in registry.decode("kernel-log", one.body(padding)) if isinstance(found, Fault)]


def lost(some: list[Combination], source: random.Random) -> list[Combination]:
    """Return the combinations of which the record was not decoded exactly once, alone or in a log of any length."""
    return [one for one in some if codes_in(one, source.choice(PADDINGS)) != [one.code]]


@pytest.mark.nightly
def test_a_record_survives_a_seeded_slice_of_all_combinations() -> None:
    source = random.Random(os.environ.get("FAULTBRIDGE_SEED", "21"))
    assert lost(source.sample(all_combinations(), SLICE), source) == []


@pytest.mark.nightly
@pytest.mark.parametrize("code", RECORDS)
def test_a_record_survives_every_combination(code: str) -> None:
    """One part for each record: a log around the record costs 15 times as much as the record alone."""
    own = [one for one in all_combinations() if one.code == code]
    assert len(own) * len(RECORDS) == len(all_combinations()) >= 400_000
    assert [one for one in own if codes_in(one, "") != [code]] == []


@pytest.mark.nightly
@pytest.mark.parametrize("code", RECORDS)
def test_a_record_survives_50_000_combinations_in_a_log_of_every_kind(code: str) -> None:
    """Draws the combinations evenly from all of them; each is decoded in a log with one kind of prefix."""
    own = random.Random(f"21 {code}").sample(
        [one for one in all_combinations() if one.code == code], IN_A_LOG // len(RECORDS) + 1
    )
    logs = [text for text in PADDINGS if text]
    bodies = ((one, logs[number % len(logs)]) for number, one in enumerate(own))
    assert [one for one, log in bodies if codes_in(one, log) != [code]] == []


@for_each("padding", [text for text in PADDINGS if text.startswith("[")], ids=len)
@for_each("joint", ["", "#012", "\r"])
@for_each("code", RECORDS)
def test_a_record_glued_to_a_harmless_line_of_a_large_log_is_found(code: str, joint: str, padding: str) -> None:
    one = Combination(code, "plain", "[ 8123.617543] ", f"[ 8100.000002] audit: type=1400 aud{joint}", "")
    assert codes_in(one, padding) == [code]


STAMPS = ["Nov 19 01:02:04 n1 kernel: ", "2026-11-19T01:02:04.123456+00:00 n1 kernel: "]
LATER = [
    ("nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "host.disk_controller_down"),
    ("NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=p, GPU has fallen off the bus.", "xid.79"),
]


@pytest.mark.parametrize(("text", "code"), LATER)
@pytest.mark.parametrize("stamp", STAMPS)
def test_a_syslog_message_behind_another_on_its_line_is_found(stamp: str, text: str, code: str) -> None:
    found = faults(f"{stamp}usb 1-1: new device {stamp}{text}")
    assert [fault.code for fault in found] == [code]


def test_a_stamp_within_the_text_of_a_program_starts_no_kernel_message() -> None:
    assert faults(f"Nov 19 01:02:03 n1 trainer[7]: read {STAMPS[0]}{LATER[0][0]}") == []


XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def faults(body: str | bytes, source: str = "kernel-log") -> list[Fault]:
    encoded = body.encode() if isinstance(body, str) else body
    return [found for found in registry.decode(source, encoded) if isinstance(found, Fault)]


@pytest.mark.parametrize(
    "line",
    [
        f"[ 1.000001] {XID} [ 1.000002] {XID.replace('79', '48', 1)}",
        f"{XID}{XID.replace('79', '48', 1)}",
        f"Feb  3 04:05:06 h kernel: {XID}#012{XID.replace('79', '48', 1)}",
        json.dumps({"log": f"[ 1.000001] {XID}\n[ 1.000002] {XID.replace('79', '48', 1)}\n"}),
        f"[ 1.000001] {XID}\r[ 1.000002] {XID.replace('79', '48', 1)}",
    ],
)
def test_each_of_several_records_on_one_line_is_a_fault(line: str) -> None:
    assert [one.code for one in faults(line)] == ["xid.79", "xid.48"]


def test_white_space_within_a_record_changes_nothing() -> None:
    assert [one.code for one in faults("[ 1.0] NVRM:   Xid  (PCI:0000:c1:00):   79,   pid=1")] == ["xid.79"]


@pytest.mark.parametrize("lines", [65, 3000])
def test_a_record_after_many_lines_of_one_message_is_found(lines: int) -> None:
    harmless = "".join(f"[{n:12.6f}] usb 1-1: new device {n}\n" for n in range(lines))
    for code, record in RECORDS.items():
        body = json.dumps({"_TRANSPORT": "kernel", "MESSAGE": f"{harmless}[ 4000.000001] {record}"})
        assert [one.code for one in faults(body)] == [code]


def test_records_beyond_the_limit_of_one_message_are_counted() -> None:
    body = json.dumps({"log": "NVRM: Xid (PCI:0000:c1:00): 79\n" * (MAX_PARTS + 7)}) + "\n" + json.dumps({"log": "x"})
    decoded = registry.read("kernel-log", body.encode())
    assert (len(decoded.observations), decoded.unparsed) == (MAX_PARTS, 7)


def test_a_wrapped_line_that_a_program_forwarded_to_syslog_is_not_trusted_and_not_lost() -> None:
    entry = WRAPPERS["journald-bytes"](XID).decode()
    (found,) = faults(f"Feb  3 04:05:06 h shipper[12]: {entry}")
    assert (found.code, found.severity, found.action) == ("xid.79", Severity.INFO, Action.NONE)


def test_a_message_that_a_program_wrote_is_not_trusted_wherever_it_stands() -> None:
    forged = faults(f"Feb  3 04:05:06 h ubuntu: [ 1.000001] {XID}")
    assert [(one.severity, one.action) for one in forged] == [(Severity.INFO, Action.NONE)]


@pytest.mark.parametrize(
    ("line", "unparsed"),
    [
        ("[ 1.0] NVRM: Xid (PCI:0000:c1:00): abc, pid=1", 1),
        (f"Feb  3 04:05:06 h quoter[1]: {XID}", 1),
        ("[ 1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module", 0),
        (f"[ 1.0] {XID}", 0),
    ],
)
def test_a_line_that_looks_like_a_fault_and_is_none_is_counted(line: str, unparsed: int) -> None:
    assert registry.read("kernel-log", line.encode()).unparsed == unparsed


def test_a_document_of_which_nothing_is_understood_is_counted() -> None:
    assert registry.read("slurm-node", b"PartitionName=dev AllowGroups=ALL\n   State=UP").unparsed == 1


def test_nul_bytes_within_a_log_are_skipped_and_noted() -> None:
    decoded = registry.read("kernel-log", f"[ 1.0] eth0: up\n{chr(0) * 4096}[ 2.0] {XID}\n".encode())
    assert [one.code for one in decoded.observations] == ["xid.79"]
    assert decoded.notes == ("4096 NUL bytes were skipped",)


def test_every_event_of_an_envelope_keeps_its_own_time() -> None:
    times = [one.observed_at for one in faults(awslogs(XID, XID))]
    assert times == [datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2026, 2, 3, 4, 5, 7, tzinfo=UTC)]
    found = registry.decode("dcgm-health", awslogs(HEALTH, HEALTH))
    assert [one.observed_at for one in found] == times


@pytest.mark.parametrize(("source", "text"), [("dcgm-health", HEALTH), ("fabric-manager-log", FABRIC)])
def test_other_sources_are_read_from_envelopes_and_wrappers_too(source: str, text: str) -> None:
    plain = [one.code for one in registry.decode(source, text.encode()) for one in faults_of(one)]
    assert plain
    wrapped = (
        awslogs(text),
        json.dumps({"log": text + "\n", "stream": "stdout", "time": "2026-02-03T04:05:06Z"}).encode(),
        json.dumps({"log": json.dumps({"message": text})}).encode(),
        f"2026-02-03T04:05:06.5Z stdout F {text}".encode(),
    )
    for body in wrapped:
        assert [one.code for one in registry.decode(source, body) for one in faults_of(one)] == plain
        assert registry.recognize(body) == source


def test_json_lines_of_any_length_are_read_in_pieces() -> None:
    line = json.dumps({"log": f"[ 1.0] {XID}\n"}).encode() + b"\n"
    body = line * 3000
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    assert len(registry.read_pieces("kernel-log", pieces).observations) == 3000
