"""The questions that the agent asks a node: what it runs and reads, and in which source the answers are."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from faultbridge.agent.children import MAX_OUTPUT, Ended, How, Read, Running, start
from faultbridge.agent.looks import Look
from faultbridge.agent.settings import AgentSettings

SCRAPE_SECONDS = 5.0
MAX_FILES = 4000
_PORT_FILES = ("state", "phys_state", "rate", "link_layer")
_COUNTER_FOLDERS = ("counters", "hw_counters")

# What nvidia-smi says of a lost GPU or of the driver instead of an answer; the decoder of its XML knows them.
SMI_SENTENCES = (
    b"Unable to determine the device handle for GPU",
    b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    b"Failed to initialize NVML: Driver",
    b"Failed to initialize NVML: Unknown Error",
    b"No devices were found",
    b"No devices found",
)


def questions(settings: AgentSettings) -> tuple[Look, ...]:
    """List what a node is asked; an interval of 0 leaves a question out."""
    patience = settings.probe_timeout_seconds
    return (
        *_of_gpus(settings),
        Look("ip link", "link-state", partial(start, ("ip", "-j", "link")), settings.link_seconds, patience, b"["),
        Look(
            "exporter",
            "dcgm-metrics",
            partial(_scrape_if_there, settings.exporter_url),
            settings.exporter_seconds,
            patience,
        ),
        Look(
            "rdma counters",
            "rdma-counters",
            partial(_read_if_there, settings.sysfs / "class" / "infiniband"),
            settings.counter_seconds,
            patience,
            also="infiniband-state",
        ),
        *_statistics(settings),
    )


def _of_gpus(settings: AgentSettings) -> tuple[Look, ...]:
    patience = settings.probe_timeout_seconds
    return (
        Look(
            "nvidia-smi",
            "nvidia-smi-xml",
            partial(start, (settings.nvidia_smi, "-q", "-x")),
            settings.smi_seconds,
            patience,
            b"<",
            "smi",
            sentences=SMI_SENTENCES,
        ),
        Look(
            "dcgmi health",
            "dcgm-health",
            partial(start, (settings.dcgmi, "health", "-c", "-j")),
            settings.health_seconds,
            patience,
            b"{",
        ),
    )


def _statistics(settings: AgentSettings) -> Iterator[Look]:
    for device in _physical(settings.sysfs / "class" / "net"):
        argv = ("ethtool", "-S", device)
        yield Look(
            f"ethtool {device}",
            "ethtool-stats",
            partial(start, argv),
            settings.counter_seconds,
            10,
            b"NIC",
            heading=f"{device}:\n".encode(),
        )


def _physical(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if (path / "device").exists())[:32]
    except OSError:
        return []


def _scrape_if_there(url: str) -> Running:
    return Read(partial(scrape, url))


def scrape(url: str) -> bytes:
    """Read an exporter's page within five seconds and two megabytes; one that is not there is FileNotFoundError."""
    if not url.startswith(("http://127.0.0.1", "http://localhost", "http://[::1]")):
        raise ValueError(f"{url} is not on this machine")
    ends = time.monotonic() + SCRAPE_SECONDS
    page = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=SCRAPE_SECONDS) as answer:  # noqa: S310 - of this machine, see above
            while chunk := answer.read1(65536):
                page += chunk
                if len(page) > MAX_OUTPUT or time.monotonic() > ends:
                    raise TimeoutError(f"{url} does not come to an end")
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise FileNotFoundError(url) from None
        raise
    return bytes(page)


def _read_if_there(folder: Path) -> Running | Ended:
    return Read(partial(port_counters, folder)) if folder.is_dir() else Ended(How.ABSENT)


def port_counters(folder: Path) -> bytes:
    """Read state and counters of every RDMA port as `path: value` lines."""
    lines = []
    for port in sorted(folder.glob("*/ports/*")):
        files = [port / name for name in _PORT_FILES]
        for name in _COUNTER_FOLDERS:
            files += sorted((port / name).glob("*"))
        lines += [f"{file}: {value}" for file in files if (value := _value(file)) is not None]
    return "\n".join([*lines[:MAX_FILES], ""]).encode()


def _value(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
