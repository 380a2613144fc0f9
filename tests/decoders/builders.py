"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

import csv
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import settings

from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import MAX_EVIDENCE, MAX_MESSAGE
from faultbridge.model.errors import Rejected
from tests.decoders.captures import faults_and_clears


def awslogs(*messages: str) -> bytes:
    events = [{"id": "1", "timestamp": 1770091506000 + 1000 * n, "message": one} for n, one in enumerate(messages)]
    return json.dumps({"messageType": "DATA_MESSAGE", "logStream": "x", "logEvents": events}).encode()


HEALTH = '{"body": {"GPU": {"children": {"0": {"children": {"Errors": {"children": {"Memory system": {"value": '
HEALTH += '"Failure", "overflow": ["x"]}}}}}}}, "Overall Health": {"value": "Failure"}}, "header": ["Health"]}'
FABRIC = "[Feb 03 2026 04:05:06] [ERROR] [tid 8] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
FABRIC += "00000000:05:00.0 physical id 9 port 30"

AT = datetime(2026, 2, 3, 4, 5, 6, 123456, tzinfo=UTC)


def verbose(message: str, transport: str = "kernel", zone: str = "UTC") -> str:
    head = f"Tue 2026-02-03 04:05:06.123456 {zone} [s=a1;i=1;b=b1;m=1;t=1;x=1]"
    return f"{head}\n    _TRANSPORT={transport}\n    _HOSTNAME=gpu-1\n    MESSAGE={message}\n"


def export(message: str, transport: str = "kernel") -> str:
    micros = int(AT.timestamp() * 1_000_000)
    fields = (f"__REALTIME_TIMESTAMP={micros}", f"MESSAGE={message}", f"_TRANSPORT={transport}", "_HOSTNAME=gpu-1")
    return "__CURSOR=s=a1\n" + "\n".join(fields) + "\n\n"


# Code: NVIDIA's bucket. The reason of each is in its catalog row.
DEPARTURES_FROM_NVIDIA = {
    "xid.54": "CHECK_MECHANICALS",
    "xid.61": "CONTACT_SUPPORT",
    "xid.63": "IGNORE",
    "xid.64": "RESET_GPU",
    "xid.78": "UPDATE_SWFW",
    "xid.137": "IGNORE",
    "xid.160": "IGNORE",
}

MIN_AGREEMENT = 0.98


def rows(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "catalogue" / name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


# Pieces of every format, one a line; hypothesis puts them together wrongly.
WORDS = [piece.replace("\\n", "\n") for piece in (Path(__file__).parent / "pieces.txt").read_text("utf-8").splitlines()]

EXAMPLES = int(os.environ.get("FAULTBRIDGE_FUZZ_EXAMPLES", "50"))

fuzz = settings(max_examples=EXAMPLES, deadline=None)


def outcome(source: str, body: bytes) -> str:
    try:
        for one in faults_and_clears(registry.decode(source, body)):
            assert len(one.evidence.encode()) <= MAX_EVIDENCE
            assert len(one.message.encode()) <= MAX_MESSAGE
            assert all(isinstance(value, str) for value in one.attributes.values())
    except Rejected as rejected:
        return rejected.reason
    return "decoded"
