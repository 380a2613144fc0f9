"""The host that the agent runs on: its clocks, host name, boot id and EC2 instance id."""

from __future__ import annotations

import re
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
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
    token = read_url(f"{base_url}/api/token", lifetime, METADATA_TIMEOUT_SECONDS, method="PUT")
    return read_url(f"{base_url}/meta-data/{path}", {"X-aws-ec2-metadata-token": token}, METADATA_TIMEOUT_SECONDS)


def read_url(url: str, headers: Mapping[str, str], seconds: float, method: str = "GET") -> str:
    """Return up to 64 KiB of text from a URL of a fixed or checked host; raises OSError."""
    request = urllib.request.Request(url, method=method, headers=dict(headers))  # noqa: S310 - the host is checked
    with urllib.request.urlopen(request, timeout=seconds) as response:  # noqa: S310 - as above
        return str(response.read(65536).decode())
