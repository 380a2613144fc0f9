"""Invalid records as senders may really send them, with the reason of their rejection."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.e2e.harness.records import GPU_LOST, UNKNOWN_NODE, healthy_smi

LINE_BYTES = 200 * 1024
EXIT_USAGE, EXIT_UNDECODABLE = 2, 65

INCOMPRESSIBLE = Random(7).randbytes(200 * 1024).hex().encode()
"""Too large for the queue even with gzip; such a body is stored in the bucket."""

ENTITY_BOMB = (
    '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log ['
    '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">'
    ']><nvidia_smi_log><gpu id="00000000:53:00.0"><uuid>&c;</uuid></gpu></nvidia_smi_log>'
)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """An invalid record, the reason of its rejection, and the exit code of the CLI that decodes it."""

    name: str
    source: str
    body: bytes
    reason: str
    node: str = "node-000"
    exit_code: int = EXIT_UNDECODABLE


BAD_RECORDS = (
    BadRecord("empty", "kernel-log", b"", "empty"),
    BadRecord("binary", "kernel-log", bytes(range(256)) * 16, "binary"),
    BadRecord("truncated-xml", "nvidia-smi-xml", healthy_smi().encode()[:700], "malformed_xml"),
    BadRecord("entity-bomb", "nvidia-smi-xml", ENTITY_BOMB.encode(), "entity_declaration"),
    BadRecord("line-of-200-kb", "kernel-log", b"A" * LINE_BYTES, "no_framing"),
    BadRecord("document-of-400-kb", "dcgm-health", b'{"body": "' + INCOMPRESSIBLE, "malformed_json"),
    BadRecord("json-of-the-wrong-shape", "dcgm-health", b'{"body": [], "header": 7}', "wrong_shape"),
    BadRecord("unknown-source", "crystal-ball", b"tomorrow", "unknown_source", exit_code=EXIT_USAGE),
    BadRecord("unknown-node", "kernel-log", GPU_LOST.encode(), "unknown_node", node=UNKNOWN_NODE, exit_code=0),
)

LONG_VALID_LINE = GPU_LOST.encode() + b" and " + b"x" * LINE_BYTES
"""A valid line may be this long."""

INVALID_MESSAGES = ("{", "[]", '{"v": 9}', '{"v": 1, "record_id": 7}')
"""Texts on the queue that are not messages of a Faultbridge sender."""
