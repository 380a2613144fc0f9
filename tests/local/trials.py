"""What the tests of `up` and `down` do again and again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.errors import FaultbridgeError
from faultbridge.local.deploy import Deployment

LISTENING = "0A"  # of /proc/net/tcp
LOOPBACK = "0100007F"  # 127.0.0.1, as the kernel writes it there


def up(deployment: Deployment, *, fresh: bool = False) -> tuple[local.StackInfo, list[str]]:
    said: list[str] = []
    info = local.up(fresh, said.append, usual_ports=False, deployment=deployment)
    return info, said


def failure(deployment: Deployment) -> FaultbridgeError:
    with pytest.raises(FaultbridgeError) as error:
        up(deployment)
    assert "\n" not in str(error.value)
    return error.value


def processes_of(home: Path) -> list[str]:
    """Command lines of all processes that have this folder in their environment."""
    found = []
    others = (entry for entry in Path("/proc").glob("[0-9]*") if entry.name != str(os.getpid()))
    for entry in others:
        try:
            if str(home).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def listening_addresses(pid: int) -> Iterator[str]:
    """The local address (hexadecimal, as the kernel has it) of each socket on which the process listens."""
    links = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
    own = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in own:
                yield fields[1].partition(":")[0]
