"""What comes in and is of no use: each as it may really come, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.e2e.batches import LOST, NOBODY, healthy_smi

LINE_BYTES = 200 * 1024
EXIT_USAGE, EXIT_UNDECODABLE = 2, 65

INCOMPRESSIBLE = Random(7).randbytes(200 * 1024).hex().encode()
"""What neither the queue takes nor gzip makes smaller: it travels beside the queue."""

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log ['
    '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">'
    ']><nvidia_smi_log><gpu id="00000000:53:00.0"><uuid>&c;</uuid></gpu></nvidia_smi_log>'
)


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that nobody can use: the reason under which it is kept, and how a command that reads it exits."""

    name: str
    source: str
    body: bytes
    reason: str
    node: str = "node-000"
    exit_code: int = EXIT_UNDECODABLE


BAD = (
    Bad("empty", "kernel-log", b"", "empty"),
    Bad("binary", "kernel-log", bytes(range(256)) * 16, "binary"),
    Bad("truncated-xml", "nvidia-smi-xml", healthy_smi().encode()[:700], "malformed_xml"),
    Bad("entity-bomb", "nvidia-smi-xml", BOMB.encode(), "entity_declaration"),
    Bad("line-of-200-kb", "kernel-log", b"A" * LINE_BYTES, "no_framing"),
    Bad("document-of-400-kb", "dcgm-health", b'{"body": "' + INCOMPRESSIBLE, "malformed_json"),
    Bad("json-of-the-wrong-shape", "dcgm-health", b'{"body": [], "header": 7}', "wrong_shape"),
    Bad("unknown-source", "crystal-ball", b"tomorrow", "unknown_source", exit_code=EXIT_USAGE),
    Bad("unknown-node", "kernel-log", LOST.encode(), "unknown_node", node=NOBODY, exit_code=0),
)

LONG_BUT_GOOD = LOST.encode() + b" and " + b"x" * LINE_BYTES
"""A line of that length is no trouble by itself."""

NO_MESSAGE = ("{", "[]", '{"v": 9}', '{"v": 1, "record_id": 7}')
"""Texts on the queue that no sender of ours puts there."""
