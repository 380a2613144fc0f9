"""Processor time of the most expensive messages that a sender can put on the queue.

    python -m tests.bench.hostile_messages

Each input of `tests/decoders/nonsense.py` and each sample, repeated, fills almost the largest body that ingest unpacks
from a message. Every decoder tries it at a sixteenth of the size, and the real ingest then takes the three
slowest as messages of a registered node, on the fake table. Inputs that do not compress into a message are left out.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.storage.wire.message import MAX_UNPACKED_BYTES
from tests.bench.core import samples
from tests.bench.report import Row, report
from tests.decoders.nonsense import sized
from tests.world import XID_79, World

SIZE = MAX_UNPACKED_BYTES - 16 * 1024  # some inputs are a little longer
TRIAL = SIZE // 16
TRIED = 3
MAX_SECONDS = 1.0
SHOWN = 20


def inputs(size: int) -> dict[str, bytes]:
    """Return every input by name."""
    repeated = {
        f"sample of {source}, {number}": (body * (size // len(body) + 1))[:size]
        for source, bodies in samples().items()
        for number, body in enumerate(bodies)
        if body
    }
    return {**sized(size), **repeated, **packed(size)}


def packed(size: int) -> dict[str, bytes]:
    """Return CloudWatch Logs records that unpack to almost a size, from a few kilobytes."""
    lines = {"tiny events": "a", "events of an Xid": XID_79, "an event of many lines": f"{XID_79}\n" * (size // 100)}
    return {f"packed: {name}": pack(line, size) for name, line in lines.items()}


def pack(line: str, size: int) -> bytes:
    """Return a packed record with as many equal events as fit into a size."""
    event = {"timestamp": 1_770_120_000_000, "message": line}
    events = [event] * max(1, (size - 200) // (len(json.dumps(event)) + 2))
    record = {"messageType": "DATA_MESSAGE", "logStream": "x", "logEvents": events}
    data = base64.b64encode(gzip.compress(json.dumps(record).encode(), mtime=0)).decode()
    return json.dumps({"awslogs": {"data": data}}).encode()


def decode_seconds(source: str, body: bytes) -> float:
    """Return the processor time of a decoder."""
    start = time.process_time()
    with suppress(Rejected):
        registry.decode(source, body)
    return time.process_time() - start


def ingested(name: str, body: bytes, trial: bytes) -> Iterator[Row]:
    """Ingest a body as the sources whose decoders take the longest for a part of it."""
    slowest = sorted(registry.names(), key=lambda source: decode_seconds(source, trial), reverse=True)
    for source in slowest[:TRIED]:
        world = World()
        try:
            delivery = world.message(body, source=source)
        except ValueError:
            return  # it does not fit into a message
        start = time.process_time()
        outcome = world.outcomes(delivery)[0]
        yield {"input": name, "source": source, "seconds": time.process_time() - start, "outcome": outcome.value}


def main() -> int:
    """Print the slowest messages; exit code 1 if one takes longer than the limit."""
    trials = inputs(TRIAL)
    rows = [row for name, body in inputs(SIZE).items() for row in ingested(name, body, trials[name])]
    rows.sort(key=lambda row: row["seconds"], reverse=True)
    report("hostile_messages", [{**row, "seconds": f"{row['seconds']:.2f}"} for row in rows[:SHOWN]])
    return 1 if rows[0]["seconds"] > MAX_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
