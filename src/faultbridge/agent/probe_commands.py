"""Defines the probes of a GPU node: which programs and files they read, and the source of each output."""

from __future__ import annotations

import http.client
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from faultbridge.agent.child_processes import (
    MAX_OUTPUT_BYTES,
    BackgroundRead,
    Outcome,
    ProbeResult,
    RunningProbe,
    start_process,
)
from faultbridge.agent.interface_statistics import SOURCE, InterfaceStatistics
from faultbridge.agent.probes import Probe
from faultbridge.agent.settings import AgentSettings
from faultbridge.data.counters import counters_of

EXPORTER_TIMEOUT_SECONDS = 5
MAX_FILES = 4000
MAX_INTERFACES = 32
_THIS_HOST = ("127.0.0.1", "localhost", "::1")
_PORT_FILES = ("state", "phys_state", "rate", "link_layer")
_COUNTER_FOLDERS = ("counters", "hw_counters")

# Error texts of nvidia-smi about a lost or damaged GPU or a broken driver; the decoder of its XML reads them too.
NVIDIA_SMI_ERRORS = (
    b"Unable to determine the device handle for GPU",
    b"WARNING: infoROM is corrupted at gpu",
    b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    b"Failed to initialize NVML: Driver",
    b"Failed to initialize NVML: Unknown Error",
    b"No devices were found",
    b"No devices found",
)


def node_probes(settings: AgentSettings) -> tuple[Probe, ...]:
    """Return the probes of this node. The scheduler skips a probe whose interval is 0."""
    timeout = settings.probe_timeout_seconds
    nvidia_smi = partial(start_process, (settings.nvidia_smi, "-q", "-x"))
    dcgm_health = partial(start_process, (settings.dcgmi, "health", "-c", "-j"))
    ip_link = partial(start_process, ("ip", "-j", "link"))
    exporter = partial(_start_scrape, settings.exporter_url)
    counters = partial(_start_port_counters, settings.sysfs / "class" / "infiniband")
    return (
        Probe(
            "nvidia-smi",
            "nvidia-smi-xml",
            nvidia_smi,
            settings.smi_seconds,
            timeout,
            b"<",
            "smi",
            known_errors=NVIDIA_SMI_ERRORS,
        ),
        Probe("dcgmi health", "dcgm-health", dcgm_health, settings.health_seconds, timeout, b"{"),
        Probe("ip link", "link-state", ip_link, settings.link_seconds, timeout, b"["),
        Probe("exporter", "dcgm-metrics", exporter, settings.exporter_seconds, min(timeout, EXPORTER_TIMEOUT_SECONDS)),
        Probe(
            "rdma counters",
            "rdma-counters",
            counters,
            settings.counter_seconds,
            timeout,
            second_source="infiniband-state",
        ),
        *_interface_probes(settings),
    )


def _interface_probes(settings: AgentSettings) -> Iterator[Probe]:
    interfaces = _physical_interfaces(settings.sysfs / "class" / "net")
    if interfaces:
        statistics = InterfaceStatistics(interfaces)
        yield Probe("ethtool", SOURCE, statistics.start, settings.counter_seconds, statistics.timeout_seconds)


def _physical_interfaces(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if (path / "device").exists())[:MAX_INTERFACES]
    except OSError:
        return []


def _start_scrape(url: str) -> RunningProbe:
    return BackgroundRead(partial(scrape, url))


def scrape(url: str) -> bytes:
    """Read the metrics page of an exporter on this host. Reading stops when the page exceeds 2 MiB.

    Raises ValueError if the URL has another host, FileNotFoundError if no exporter listens at the URL, and TimeoutError
    if the exporter sends nothing for 5 s or only a part of the page within 5 s. An HTTP error, or a response that is
    not HTTP, raises OSError.
    """
    if not _is_on_this_host(url):
        raise ValueError(f"the exporter is not on this host: {url}; allowed are http URLs of {', '.join(_THIS_HOST)}")
    deadline = time.monotonic() + EXPORTER_TIMEOUT_SECONDS
    page = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=EXPORTER_TIMEOUT_SECONDS) as response:  # noqa: S310 - of this host
            while len(page) <= MAX_OUTPUT_BYTES and (chunk := response.read1(65536)):
                page += chunk
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the page is not complete after {EXPORTER_TIMEOUT_SECONDS} s: {url}")
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise FileNotFoundError(url) from None
        if isinstance(error.reason, TimeoutError):
            raise error.reason from None
        raise
    except http.client.HTTPException as error:
        raise OSError(f"the exporter's response is not valid HTTP: {type(error).__name__}: {url}") from None
    return bytes(page)


def _is_on_this_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname in _THIS_HOST


def _start_port_counters(folder: Path) -> RunningProbe | ProbeResult:
    return BackgroundRead(partial(port_counters, folder)) if folder.is_dir() else ProbeResult(Outcome.ABSENT)


def port_counters(folder: Path) -> bytes:
    """Read the state and some counters of each RDMA port below `folder`, as lines `path: value`.

    Only counters for which ingest has a threshold are read, and at most `MAX_FILES` lines are returned.
    """
    lines, with_threshold = [], counters_of("rdma-counters")
    for port in sorted(folder.glob("*/ports/*")):
        files = [port / name for name in _PORT_FILES]
        for name in _COUNTER_FOLDERS:
            files += sorted(file for file in (port / name).glob("*") if file.name in with_threshold)
        lines += [f"{file}: {value}" for file in files if (value := _read_value(file)) is not None]
    return "\n".join([*lines[:MAX_FILES], ""]).encode()


def _read_value(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
