"""Settings of the agent: a TOML file, overridden by `FAULTBRIDGE_AGENT_*` environment variables."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from faultbridge.model import names
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.node.agent.resource_limits import DISK_BYTES

PREFIX = "FAULTBRIDGE_AGENT_"
DEFAULT_FILE = Path("/etc/faultbridge/agent.toml")
# The systemd units whose journal the agent follows, and the source of each.
JOURNAL_UNITS: Mapping[str, str] = {"nvidia-fabricmanager.service": "fabric-manager-log"}


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of one agent. A probe interval of 0 disables the probe.

    Unchanged probe output is sent again only after `unchanged_seconds`, and after twice this time for a source that
    reports only counters; with 0, all output is sent. A record that is not urgent waits up to `hold_seconds`, so that
    several records are sent in one call; with 0, no record waits.
    """

    cluster: str
    queue_url: str
    bucket: str | None = None
    node: str | None = None
    instance_id: str | None = None
    region: str | None = None
    spool: Path = Path("/var/lib/faultbridge/agent")
    spool_bytes: int = DISK_BYTES
    kmsg: Path = Path("/dev/kmsg")
    boot_id: Path = Path("/proc/sys/kernel/random/boot_id")
    sysfs: Path = Path("/sys")
    journal_units: Mapping[str, str] = field(default_factory=lambda: JOURNAL_UNITS)
    exporter_url: str = "http://127.0.0.1:9400/metrics"
    nvidia_smi: str = "nvidia-smi"
    dcgmi: str = "dcgmi"
    smi_seconds: int = 120
    health_seconds: int = 60
    exporter_seconds: int = 60
    link_seconds: int = 30
    counter_seconds: int = 60
    traffic_seconds: int = 900
    unchanged_seconds: int = 600
    heartbeat_seconds: int = 140
    hold_seconds: int = 120
    probe_timeout_seconds: int = 30

    @classmethod
    def load(cls, file: Path | None = None, environment: Mapping[str, str] | None = None) -> AgentSettings:
        """Read the settings from a file and from the environment variables, which override the file.

        Raises Misconfigured if a setting is unknown, missing or invalid, or if the file cannot be read.
        """
        values = _read_file(file) | _read_variables(os.environ if environment is None else environment)
        unknown = values.keys() - _TYPES.keys()
        if unknown:
            known = ", ".join(sorted(_TYPES))
            raise Misconfigured(f"unknown agent setting: {', '.join(sorted(unknown))}; known settings: {known}")
        for name in ("cluster", "queue_url"):
            if not values.get(name):
                raise Misconfigured(
                    f"missing agent setting: {name}; set it in {DEFAULT_FILE} or {PREFIX}{name.upper()}"
                )
        try:
            settings = cls(**{name: _convert(name, value) for name, value in values.items()})
            names.cluster_name(settings.cluster)
        except (Rejected, ValueError, TypeError) as error:
            raise Misconfigured(f"invalid agent setting: {error}; see docs/agent.md") from None
        return settings


def _read_file(file: Path | None) -> dict[str, object]:
    path = file or DEFAULT_FILE
    if file is None and not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise Misconfigured(f"the settings file is not text: {path}") from None
    except OSError as error:
        raise Misconfigured(f"the settings file cannot be read: {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"the settings file is not TOML: {path}: {error}") from None


def _read_variables(environment: Mapping[str, str]) -> dict[str, object]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value
    }


def _convert(name: str, value: Any) -> Any:  # noqa: ANN401 - a setting is a string, a number, a path or a table
    kind = _TYPES[name]
    if kind == "Path":
        return Path(value)
    if kind == "int":
        return int(value)
    return dict(value) if kind.startswith("Mapping") else str(value)


_TYPES = {field.name: str(field.type) for field in fields(AgentSettings)}
