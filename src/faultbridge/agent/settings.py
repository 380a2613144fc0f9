"""What an agent is told: by a TOML file, by `FAULTBRIDGE_AGENT_*` variables above it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from faultbridge.agent.limits import DISK_BYTES
from faultbridge.domain import names
from faultbridge.errors import Misconfigured, Rejected

PREFIX = "FAULTBRIDGE_AGENT_"
DEFAULT_FILE = Path("/etc/faultbridge/agent.toml")
# Units whose messages are worth sending beside the kernel's, and the source that each is in.
JOURNAL_UNITS: Mapping[str, str] = {"nvidia-fabricmanager.service": "fabric-manager-log"}


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How an agent runs; seconds are seconds, an interval of 0 switches a look off."""

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
    heartbeat_seconds: int = 60
    probe_timeout_seconds: int = 30

    @classmethod
    def load(cls, file: Path | None = None, environment: Mapping[str, str] | None = None) -> AgentSettings:
        """Read the file, if there is one, and the variables above it; Misconfigured says what is missing or wrong."""
        given = _file(file) | _variables(os.environ if environment is None else environment)
        unknown = given.keys() - _KINDS.keys()
        if unknown:
            raise Misconfigured(f"the agent knows no setting {', '.join(sorted(unknown))}")
        for name in ("cluster", "queue_url"):
            if not given.get(name):
                raise Misconfigured(f"the agent needs `{name}` (in {DEFAULT_FILE} or {PREFIX}{name.upper()})")
        try:
            settings = cls(**{name: _as(name, value) for name, value in given.items()})
            names.cluster_name(settings.cluster)
        except (Rejected, ValueError, TypeError) as error:
            raise Misconfigured(f"a setting of the agent is wrong: {error}") from None
        return settings

    def with_instance(self, instance_id: str | None) -> AgentSettings:
        """Return the same, with the id of this instance unless one was given."""
        return self if self.instance_id else replace(self, instance_id=instance_id)


def _file(file: Path | None) -> dict[str, Any]:
    path = file or DEFAULT_FILE
    if file is None and not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}") from None


def _variables(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value
    }


def _as(name: str, value: Any) -> Any:  # noqa: ANN401 - a setting is a text, a number, a path or a table
    kind = _KINDS[name]
    if kind == "Path":
        return Path(value)
    if kind == "int":
        return int(value)
    return dict(value) if kind.startswith("Mapping") else str(value)


_KINDS = {field.name: str(field.type) for field in fields(AgentSettings)}
