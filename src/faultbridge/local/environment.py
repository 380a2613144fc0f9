"""The environment variables of the emulators, of SAM, and of whoever talks to them.

The emulators get an environment made from nothing: Lambda's worker processes inherit the whole of it, and a
profile, a proxy or a `PYTHONPATH` of the person at the keyboard has no business in there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from faultbridge.local.paths import StackFolder
from faultbridge.local.ports import LOOPBACK, Ports

REGION = "us-east-1"
ACCOUNT = "000000000000"
TOKEN_VARIABLE = "FAULTBRIDGE_LOCAL_TOKEN"  # noqa: S105 - the name of a variable
FOLDER_VARIABLE = "FAULTBRIDGE_LOCAL_FOLDER"
PORT_VARIABLE = "FAULTBRIDGE_LOCAL_PORT"
ENDS_WITH_VARIABLE = "FAULTBRIDGE_LOCAL_ENDS_WITH"
MINUTE_VARIABLE = "FAULTBRIDGE_LOCAL_MINUTE_SECONDS"
EVENT_PLANE_VARIABLE = "FAULTBRIDGE_LOCAL_EVENT_PLANE"

# How long a minute of a schedule's rate lasts.
MINUTE_SECONDS = 3

_COMPUTE_SERVICES = ("EC2", "AUTO_SCALING", "SSM", "SAGEMAKER", "EKS")
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", ENDS_WITH_VARIABLE)
# Both emulators take any credentials; these say on sight that they are not real.
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
_NOTHING_OF_THE_USER = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def endpoint(port: int) -> str:
    """Return the address of an emulator, without a slash at its end."""
    return f"http://{LOOPBACK}:{port}"


def client_environment(ports: Ports) -> dict[str, str]:
    """Tell what any AWS client needs to reach the stack: endpoints, a region, credentials that are no secret."""
    compute = endpoint(ports.compute_plane)
    return {
        **_CREDENTIALS,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint(ports.event_plane),
        **{f"AWS_ENDPOINT_URL_{service}": compute for service in _COMPUTE_SERVICES},
    }


def event_plane_environment(ports: Ports, folder: StackFolder, token: str) -> dict[str, str]:
    """Return the whole environment of MiniStack, and so of every Lambda worker."""
    scratch = folder.scratch
    return {
        **_basics(folder, token),
        **client_environment(ports),
        "BIND_HOST": LOOPBACK,
        "MINISTACK_HOST": LOOPBACK,
        "GATEWAY_PORT": str(ports.event_plane),
        "MINISTACK_REGION": REGION,
        "LAMBDA_EXECUTOR": "local",
        "IOT_MTLS_ENABLED": "0",  # else it listens on 0.0.0.0:8883
        "SFTP_ENABLED": "0",
        "STATE_DIR": str(scratch / "state"),
        "S3_DATA_DIR": str(scratch / "s3"),
        "LOG_LEVEL": "INFO",
        MINUTE_VARIABLE: str(MINUTE_SECONDS),
    }


def compute_plane_environment(ports: Ports, folder: StackFolder, token: str) -> dict[str, str]:
    """Return the whole environment of the moto server."""
    return {
        **_basics(folder, token),
        **_CREDENTIALS,
        "AWS_DEFAULT_REGION": REGION,
        PORT_VARIABLE: str(ports.compute_plane),
        EVENT_PLANE_VARIABLE: endpoint(ports.event_plane),  # whose S3 takes what commands print
        "MOTO_ACCOUNT_ID": ACCOUNT,  # the event plane's account, so that ARNs of both agree
    }


def tool_environment(ports: Ports, folder: StackFolder) -> dict[str, str]:
    """Return the environment of SAM CLI: the user's own (it may have to fetch packages), aimed at the stack."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    return {
        **kept,
        **_NOTHING_OF_THE_USER,
        **client_environment(ports),
        "SAM_CLI_TELEMETRY": "0",
        "__SAM_CLI_APP_DIR": str(folder.root / "sam"),  # else it writes into the person's home
        "SAM_CLI_POLL_DELAY": "0.2",  # its 5 s are meant for the cloud
        "NO_PROXY": _without_proxy(kept),
    }


def _basics(folder: StackFolder, token: str) -> dict[str, str]:
    kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
    return {
        **kept,
        **_NOTHING_OF_THE_USER,
        "TMPDIR": str(folder.scratch / "tmp"),
        "PYTHONUNBUFFERED": "1",
        FOLDER_VARIABLE: str(folder.scratch),
        TOKEN_VARIABLE: token,
    }


def _without_proxy(environment: Mapping[str, str]) -> str:
    return ",".join(filter(None, (environment.get("NO_PROXY", ""), LOOPBACK, "localhost")))
