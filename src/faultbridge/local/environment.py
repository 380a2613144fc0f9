"""Ports and environment variables of the emulators and AWS clients of an embedded stack.

The emulators get a new, minimal environment, because Lambda workers inherit the environment of their emulator. The
user's AWS profile, proxy and `PYTHONPATH` must not reach the workers.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultbridge.local.stack.files import StackFolder

LOOPBACK = "127.0.0.1"
REGION = "us-east-1"
ACCOUNT = "000000000000"
TOKEN_VARIABLE = "FAULTBRIDGE_LOCAL_TOKEN"  # noqa: S105 - the name of a variable
FOLDER_VARIABLE = "FAULTBRIDGE_LOCAL_FOLDER"
PORT_VARIABLE = "FAULTBRIDGE_LOCAL_PORT"
PARENT_VARIABLE = "FAULTBRIDGE_LOCAL_PARENT_PID"
MINUTE_VARIABLE = "FAULTBRIDGE_LOCAL_MINUTE_SECONDS"
EVENT_PLANE_VARIABLE = "FAULTBRIDGE_LOCAL_EVENT_PLANE"

# Seconds that one minute of a schedule's `rate(...)` lasts.
MINUTE_SECONDS = 3

_COMPUTE_SERVICES = ("EC2", "AUTO_SCALING", "SSM", "SAGEMAKER", "EKS")
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", PARENT_VARIABLE)
# Both emulators accept any credentials; these are visibly not real.
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
_NO_USER_SETTINGS = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True, slots=True)
class Ports:
    """The loopback ports of the two emulators."""

    event_plane: int
    compute_plane: int


DEFAULT_PORTS = Ports(event_plane=4566, compute_plane=5000)


def is_free(port: int) -> bool:
    """Return whether a loopback port is free: no process listens on it, and it can be bound."""
    with socket.socket() as probe:
        if probe.connect_ex((LOOPBACK, port)) == 0:
            return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose_ports(*, prefer_default: bool = True) -> Ports:
    """Choose for each emulator its default port, if that is preferred and free, else any free port."""
    with ExitStack() as reserved:
        # Both sockets stay bound until both ports are known, so that the system cannot return one port twice.
        sockets = [reserved.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        first, second = (int(one.getsockname()[1]) for one in sockets)
    default = DEFAULT_PORTS
    return Ports(
        event_plane=default.event_plane if prefer_default and is_free(default.event_plane) else first,
        compute_plane=default.compute_plane if prefer_default and is_free(default.compute_plane) else second,
    )


def endpoint(port: int) -> str:
    """Return the URL of an emulator, without a trailing slash."""
    return f"http://{LOOPBACK}:{port}"


def client_environment(ports: Ports) -> dict[str, str]:
    """Return the variables that direct AWS clients to the stack: endpoints, Region and test credentials."""
    compute = endpoint(ports.compute_plane)
    return {
        **_CREDENTIALS,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint(ports.event_plane),
        **{f"AWS_ENDPOINT_URL_{service}": compute for service in _COMPUTE_SERVICES},
    }


def event_plane_environment(ports: Ports, folder: StackFolder, token: str) -> dict[str, str]:
    """Return the complete environment of MiniStack, the event plane; each Lambda worker inherits it."""
    scratch = folder.scratch
    return {
        **_emulator_basics(folder, token),
        **client_environment(ports),
        "BIND_HOST": LOOPBACK,
        "MINISTACK_HOST": LOOPBACK,
        "GATEWAY_PORT": str(ports.event_plane),
        "MINISTACK_REGION": REGION,
        "LAMBDA_EXECUTOR": "local",
        "IOT_MTLS_ENABLED": "0",  # otherwise it listens on 0.0.0.0:8883
        "SFTP_ENABLED": "0",
        "STATE_DIR": str(scratch / "state"),
        "S3_DATA_DIR": str(scratch / "s3"),
        "LOG_LEVEL": "INFO",
        MINUTE_VARIABLE: str(MINUTE_SECONDS),
    }


def compute_plane_environment(ports: Ports, folder: StackFolder, token: str) -> dict[str, str]:
    """Return the complete environment of the moto server, the compute plane."""
    return {
        **_emulator_basics(folder, token),
        **_CREDENTIALS,
        "AWS_DEFAULT_REGION": REGION,
        PORT_VARIABLE: str(ports.compute_plane),
        EVENT_PLANE_VARIABLE: endpoint(ports.event_plane),  # its S3 stores the output of commands
        "MOTO_ACCOUNT_ID": ACCOUNT,  # the event plane's account, so that ARNs of both planes match
    }


def host_architecture() -> str:
    """Return the architecture of this computer, and so of the functions: `arm64` or `x86_64`."""
    return "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x86_64"


def host_python() -> str:
    """Return the minor version of this Python, such as `3.12`; the functions of an embedded stack run on it."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _emulator_basics(folder: StackFolder, token: str) -> dict[str, str]:
    inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
    return {
        **inherited,
        **_NO_USER_SETTINGS,
        "TMPDIR": str(folder.scratch / "tmp"),
        "PYTHONUNBUFFERED": "1",
        FOLDER_VARIABLE: str(folder.scratch),
        TOKEN_VARIABLE: token,
    }
