"""Telling the fake compute plane of a running stack what its machines shall do, from outside.

The far end is `compute_script`, which lives in the compute plane's own process.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from faultbridge.local import requests
from faultbridge.local.compute_script import ANY_ZONE, NEXT_LAUNCH, failed_diagnostics
from faultbridge.local.compute_weather import Climate

# What `dcgmi diag` ends with when a test of it failed.
DIAGNOSTICS_FAILED = 226


def script_command(endpoint: str, instance_id: str, *, exit_code: int, stdout: str, until: str | None = None) -> None:
    """Let every command on that instance end so from now on; `endpoint` is the compute plane's.

    `until` is the restart (`reset`, `reboot`) that mends the instance.
    """
    body = {"instance_id": instance_id, "exit_code": exit_code, "stdout": stdout, "until": until}
    requests.call(f"{endpoint}/faultbridge/ssm", body)


def script_bad_on_arrival(endpoint: str) -> None:
    """Let the next instance that is launched fail its diagnostics (GPU memory of one of eight)."""
    script_command(endpoint, NEXT_LAUNCH, exit_code=DIAGNOSTICS_FAILED, stdout=failed_diagnostics())


def script_capacity(endpoint: str, instance_type: str, *, available: bool, zone: str = ANY_ZONE) -> None:
    """Take the capacity of a type away, or give it back; then Auto Scaling groups launch what they miss."""
    body = {"instance_type": instance_type, "zone": zone, "available": available}
    requests.call(f"{endpoint}/faultbridge/capacity", body, timeout=30.0)


def script_weather(endpoint: str, seed: int, climate: Climate) -> None:
    """Let launches be slow, fail or bring bad instances from now on, as the seed draws it."""
    requests.call(f"{endpoint}/faultbridge/weather", {"seed": seed, "climate": asdict(climate)})


def script_cluster(endpoint: str, cluster: str, **what: Any) -> None:  # noqa: ANN401 - any JSON
    """Let pods run in an EKS cluster (`pods`), be protected (`budgets`), or its API not answer (`reachable`)."""
    requests.call(f"{endpoint}/faultbridge/cluster", {"cluster": cluster, **what})


def forget_script(endpoint: str) -> None:
    """Let everything be healthy and to be had again."""
    requests.call(f"{endpoint}/faultbridge/reset", {})
