"""What the node agent takes during a storm of Xid lines: `python -m tests.bench.agent_storm [--seconds N] [--lines N]`.

The agent runs as a process of its own on a named pipe that plays /dev/kmsg and a server that plays the queue; processor
time and peak memory are the kernel's own figures of that process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.agent.test_agent_process import FakeNode, QueueServer, storm


def main() -> None:
    """Run one storm and print what it took, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--lines", type=int, default=50_000)
    given = parser.parse_args()
    queue = QueueServer()
    with tempfile.TemporaryDirectory() as folder:
        taken = storm(FakeNode(Path(folder), queue), queue, lines=given.lines, seconds=given.seconds)
    queue.close()
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
