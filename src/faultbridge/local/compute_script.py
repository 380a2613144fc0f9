"""What a test or the demo tells the fake compute plane to do: outputs of commands, and where no capacity is.

It lives in the compute plane's process; `POST /faultbridge/...` of that process changes it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from importlib.resources import files
from uuid import NAMESPACE_OID, uuid5

ANY_ZONE = "*"
NEXT_LAUNCH = "next"
RESTARTS = {"reset": "nvidia-smi --gpu-reset", "reboot": "exit 194"}
"""What tells the script of a restart from any other command."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command left behind: its exit code and its standard output."""

    exit_code: int
    stdout: str


@dataclass(slots=True)
class ComputeScript:
    """The script: by default every diagnostics run finds a healthy eight-GPU node, and capacity is everywhere.

    A reset or a reboot always comes to its end, and cures what is scripted to last until then.
    """

    outputs: dict[str, CommandOutput] = field(default_factory=dict)
    cures: dict[str, str] = field(default_factory=dict)
    for_next_launches: list[CommandOutput] = field(default_factory=list)
    without_capacity: set[tuple[str, str]] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def output_of(self, instance_id: str, commands: list[str]) -> CommandOutput | None:
        """Tell what the script says, or the healthy diagnostics for a `dcgmi diag`; None for any other command."""
        restart = next((name for name, sign in RESTARTS.items() if any(sign in line for line in commands)), None)
        if restart is not None:
            return self._restarted(instance_id, restart, commands)
        with self.lock:
            if scripted := self.outputs.get(instance_id):
                return scripted
        if any("dcgmi diag" in command for command in commands):
            return CommandOutput(0, healthy_diagnostics())
        return None

    def _restarted(self, instance_id: str, restart: str, commands: list[str]) -> CommandOutput:
        """Answer as the script on the host does: a boot of its own for each token."""
        with self.lock:
            if self.cures.get(instance_id) == restart:
                self.outputs.pop(instance_id, None)
        boot = uuid5(NAMESPACE_OID, "/".join((instance_id, *commands)))
        return CommandOutput(0, f"boot_id={boot}\n" if restart == "reboot" else "")

    def set_output(self, instance_id: str, output: CommandOutput, until: str | None = None) -> None:
        """From now on that instance's commands answer so; `next` means the next instance that is launched.

        `until` is the restart (`reset`, `reboot`) that mends it.
        """
        with self.lock:
            if until is not None:
                self.cures[instance_id] = until
            if instance_id == NEXT_LAUNCH:
                self.for_next_launches.append(output)
            else:
                self.outputs[instance_id] = output

    def launched(self, instance_id: str) -> None:
        """Give a new instance the output that waits for the next launch, if one does."""
        with self.lock:
            if self.for_next_launches:
                self.outputs[instance_id] = self.for_next_launches.pop(0)

    def set_capacity(self, instance_type: str, zone: str, *, available: bool) -> None:
        """Whether that type can be launched in that zone (`*`: in any)."""
        with self.lock:
            if available:
                self.without_capacity.discard((instance_type, zone))
            else:
                self.without_capacity.add((instance_type, zone))

    def has_capacity(self, instance_type: str, zone: str) -> bool:
        """Whether that type can be launched in that zone."""
        with self.lock:
            return self.without_capacity.isdisjoint({(instance_type, zone), (instance_type, ANY_ZONE)})

    def reset(self) -> None:
        """Forget everything that was told."""
        with self.lock:
            self.outputs.clear()
            self.cures.clear()
            self.for_next_launches.clear()
            self.without_capacity.clear()


def healthy_diagnostics() -> str:
    """Return what `dcgmi diag -j` prints of eight good GPUs (the shape of DCGM 4; a sample of our own)."""
    return _sample("dcgmi-diag-healthy.json")


def failed_diagnostics() -> str:
    """Return what it prints when the memory of one of the eight is bad (a sample of our own)."""
    return _sample("dcgmi-diag-failed-memory.json")


def _sample(name: str) -> str:
    return (files("faultbridge.local.data") / name).read_text()


SCRIPT = ComputeScript()
