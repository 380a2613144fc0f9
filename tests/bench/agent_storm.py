"""The resource usage of the node agent during many Xid lines: `python -m tests.bench.agent_storm`.

The agent runs in its own process, with a named pipe in place of /dev/kmsg and a local server in place of the queue. The
kernel reports the processor time and peak memory of that process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.agent.agent_process import FakeNode, QueueServer, storm


def main() -> None:
    """Run the benchmark once and print its result as JSON."""
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
