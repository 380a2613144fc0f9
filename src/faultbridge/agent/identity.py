"""Who this node is: its host name, its boot, its EC2 instance."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

METADATA = "http://169.254.169.254/latest"
PATIENCE = 2.0
_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")


def host_name() -> str | None:
    """Return the host's own name, without its domain."""
    return socket.gethostname().partition(".")[0] or None


def boot_id(path: Path) -> str | None:
    """Return the id of this boot, or None where the system does not say."""
    try:
        return path.read_text(encoding="ascii").strip()[:64] or None
    except (OSError, ValueError):
        return None


def instance_id(base: str = METADATA) -> str | None:
    """Ask the instance metadata service for the instance's id; None where there is none."""
    try:
        found = metadata("instance-id", base)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return found if _INSTANCE.fullmatch(found) else None


def metadata(path: str, base: str = METADATA) -> str:
    """Read one path below `meta-data/` of the instance metadata service, version 2."""
    seconds = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _read(urllib.request.Request(f"{base}/api/token", method="PUT", headers=seconds))  # noqa: S310 - a fixed host
    shown = {"X-aws-ec2-metadata-token": token}
    return _read(urllib.request.Request(f"{base}/meta-data/{path}", headers=shown))  # noqa: S310 - as above


def _read(request: urllib.request.Request) -> str:
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - as above
        return str(answer.read(65536).decode())
