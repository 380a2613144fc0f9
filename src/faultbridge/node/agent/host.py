"""The host that the agent runs on: its clocks, host name, boot id and EC2 instance id."""

from __future__ import annotations

import re
import socket
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

METADATA_URL = "http://169.254.169.254/latest"
METADATA_TIMEOUT_SECONDS = 2.0
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")


class AgentClock:
    """The wall clock and the monotonic clock (CLOCK_MONOTONIC) of this host; tests use a fake."""

    def now(self) -> datetime:
        """Return the wall clock time in UTC, which an operator or NTP can change."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since boot, as in the kernel log, without the time of a suspended host."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds."""
        time.sleep(seconds)


def print_warning(text: str) -> None:
    """Write a text as one line of printable characters to standard error, which is the log of the agent."""
    sys.stderr.write(f"faultbridge: {''.join(one if one.isprintable() else ' ' for one in text)}\n")


def host_name() -> str | None:
    """Return the host name without its domain, or None if it is empty."""
    return socket.gethostname().partition(".")[0] or None


def boot_id(path: Path) -> str | None:
    """Return the id of the current boot, or None if the file at `path` is empty or cannot be read."""
    try:
        return path.read_text(encoding="ascii").strip()[:64] or None
    except (OSError, ValueError):
        return None


def instance_id(base_url: str = METADATA_URL) -> str | None:
    """Return the EC2 instance id from the metadata service, or None, for example outside EC2."""
    try:
        found = read_metadata("instance-id", base_url)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return found if _INSTANCE_ID.fullmatch(found) else None


def read_metadata(path: str, base_url: str = METADATA_URL) -> str:
    """Return the text at a path of the metadata service (version 2); raises OSError without it."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _get(urllib.request.Request(f"{base_url}/api/token", method="PUT", headers=lifetime))  # noqa: S310 - fixed host
    headers = {"X-aws-ec2-metadata-token": token}
    return _get(urllib.request.Request(f"{base_url}/meta-data/{path}", headers=headers))  # noqa: S310 - as above


def _get(request: urllib.request.Request) -> str:
    with urllib.request.urlopen(request, timeout=METADATA_TIMEOUT_SECONDS) as response:  # noqa: S310 - as above
        return str(response.read(65536).decode())
