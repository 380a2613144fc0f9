"""torch.distributed.run (fake): runs the first two ranks of a node; a client fails unless a server is there.

SHARED is a folder in place of a network.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

GPUS = int(os.environ.get("GPUS", "8"))


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("nnodes", "node_rank", "nproc_per_node", "master_addr", "master_port", "rdzv_conf"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("script", nargs=2)
    given = parser.parse_args()
    assert (given.nnodes, given.nproc_per_node) == ("2", "gpu")
    met = Path(os.environ["SHARED"]) / f"{given.master_addr} {given.master_port}"
    if given.node_rank == "0":
        met.touch()
    elif not met.exists():
        error = (
            f"The client socket has timed out after 120000ms while trying to connect to ({given.master_addr}, 47600)."
        )
        sys.stderr.write("[W1123 20:00:00] [c10d] The IPv6 network addresses cannot be retrieved\n")
        sys.stderr.write(f"Traceback (most recent call last):\ntorch.distributed.DistNetworkError: {error}\n")
        return 1
    return max(_run(int(given.node_rank), local, given.script) for local in (0, 1))


def _run(node: int, local: int, script: list[str]) -> int:
    ranks = {"RANK": f"{node * GPUS + local}", "WORLD_SIZE": f"{2 * GPUS}", "LOCAL_RANK": f"{local}"}
    ran = subprocess.run((sys.executable, *script), env={**os.environ, **ranks}, check=False)
    if ran.returncode:
        sys.stderr.write("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n")
    return int(ran.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
