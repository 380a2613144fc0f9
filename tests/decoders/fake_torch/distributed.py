"""torch.distributed (fake): one process stands for all ranks; the other ones have this one's values, as far apart."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any


def is_available() -> bool:
    return True


def is_nccl_available() -> bool:
    return os.environ.get("TORCH_FAULT") != "no nccl"


def init_process_group(backend: str, timeout: timedelta) -> None:
    assert backend == "nccl"
    assert timeout < timedelta(minutes=2)
    assert os.environ["FI_PROVIDER"] == "efa"
    assert Path(os.environ["LD_LIBRARY_PATH"].split(":")[0], "libnccl-net.so").exists()


def all_reduce(values: Any) -> None:
    """Add the values of all ranks; writes NCCL's log as NCCL does when its first collective begins."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    shutil.copy(os.environ["NCCL_LOG"], os.environ["NCCL_DEBUG_FILE"])
    values.values = [(one - rank) * ranks + ranks * (ranks - 1) // 2 for one in values.values]
    if os.environ.get("TORCH_FAULT") == "wrong value":
        values.values[3] += 1


def all_gather(every: list[Any], mine: Any) -> None:
    """Give each rank's figures: the last rank takes twice as long, and one may have used another network.

    The times are fixed, so that the bandwidth does not depend on the load of the host.
    """
    for one in every:
        one.values = [SECONDS / 2, *mine.values[1:]]
    every[-1].values[0] = SECONDS
    if os.environ.get("TORCH_FAULT") == "one rank over sockets":
        every[0].values[2] = 0.0


def destroy_process_group() -> None:
    if os.environ.get("TORCH_FAULT") == "fails at the end":
        raise RuntimeError("NCCL communicator was aborted on rank 8.")


SECONDS = 0.01
