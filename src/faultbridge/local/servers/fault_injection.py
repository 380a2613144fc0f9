"""Injected faults of the fake compute plane: command outputs, missing capacity, bad launches.

Tests and the demo inject them through the routes `POST /faultbridge/...` of the compute plane, whose process stores
them.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from faultbridge.model.values import replace

DIAGNOSTICS_FAILED = 226
"""The exit code of `dcgmi diag` when a test fails."""

_GPUS = 8
_FAILED_GPU = 5
_WARNING = {
    "error_category": 10,
    "error_id": 57,
    "error_severity": 2,
    "warning": f"A double-bit ECC error was found in the memory of GPU {_FAILED_GPU}."
    " Drain the GPU and reset it or reboot the node.",
}

Document = dict[str, Any]


def healthy_diagnostics() -> str:
    """Return the `dcgmi diag` output for eight healthy GPUs."""
    return _diagnostics(failed=False)


def failed_diagnostics() -> str:
    """Return the `dcgmi diag` output for eight GPUs, of which one has bad memory."""
    return _diagnostics(failed=True)


def _diagnostics(*, failed: bool) -> str:
    memory = _test("memory", lambda gpu: f"Allocated {83214990000 + 1048576 * gpu} bytes (97.4%)")
    if failed:
        result = memory["results"][_FAILED_GPU]
        del result["info"]
        for part in (result, memory["test_summary"]):
            part.update(status="Fail", warnings=[_WARNING])
    pcie = _test("pcie", lambda gpu: f"GPU to Host bandwidth:\t\t{54.9 + 0.07 * gpu:.2f} GB/s")
    tests = {"Deployment": _test("software"), "Hardware": memory, "Integration": pcie}
    entities = [
        {"device_id": "2330", "entity_id": gpu, "serial_num": str(1650023040217 + 13 * gpu)} for gpu in range(_GPUS)
    ]
    document = {
        "DCGM Diagnostic": {"test_categories": [{"category": name, "tests": [test]} for name, test in tests.items()]},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}],
        "metadata": {"Driver Version Detected": "570.133.20", "version": "4.2.3"},
    }
    return json.dumps(document, indent=1)


def _test(name: str, info: Callable[[int], str] | None = None) -> Document:
    passed = {"entity_group": "GPU", "entity_group_id": 1, "status": "Pass"}
    results = [{**passed, "entity_id": gpu, **({"info": [info(gpu)]} if info else {})} for gpu in range(_GPUS)]
    return {"name": name, "results": results, "test_summary": {"status": "Pass"}}


ANY_ZONE = "*"
NEXT_LAUNCH = "next"
IDLE = "#faultbridge idle"
"""The last line that a look for processes on the GPUs prints, if it finds none."""

RESTARTS = {"reset": "nvidia-smi --gpu-reset", "reboot": "exit 194"}
"""The text in a command that identifies it as a GPU reset or as a reboot."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The result of a command; the restart `until` (`reset`, `reboot`) removes an injected result."""

    exit_code: int
    stdout: str
    until: str | None = field(default=None, compare=False)


@dataclass(slots=True)
class ComputeFaults:
    """The injected faults of instances and capacity; by default diagnostics pass on eight GPUs."""

    outputs: dict[str, CommandOutput] = field(default_factory=dict)
    for_next_launches: list[CommandOutput] = field(default_factory=list)
    without_capacity: set[tuple[str, str]] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def output_of(self, instance_id: str, commands: list[str]) -> CommandOutput | None:
        """Return the output of a restart or a look for processes, the injected one, healthy diagnostics, or None."""
        restart = next((name for name, text in RESTARTS.items() if any(text in line for line in commands)), None)
        if restart is not None:
            return self._restart(instance_id, restart, commands)
        if commands and commands[-1] == f"echo '{IDLE}'":
            return CommandOutput(0, f"{IDLE}\n")
        with self.lock:
            if injected := self.outputs.get(instance_id):
                return injected
        if any("dcgmi diag" in command for command in commands):
            return CommandOutput(0, healthy_diagnostics())
        return None

    def _restart(self, instance_id: str, restart: str, commands: list[str]) -> CommandOutput:
        """Return the output of a restart script, and remove the injected output that ends with it.

        The boot id of a reboot depends only on the instance and `commands`, so a repeated call reports no second
        reboot.
        """
        with self.lock:
            injected = self.outputs.get(instance_id)
            if injected is not None and injected.until == restart:
                del self.outputs[instance_id]
        boot = uuid5(NAMESPACE_OID, "/".join((instance_id, *commands)))
        return CommandOutput(0, f"boot_id={boot}\n" if restart == "reboot" else "")

    def set_output(self, instance_id: str, output: CommandOutput, until: str | None = None) -> None:
        """Set the output of later commands on an instance, or on the one launched next (`next`)."""
        with self.lock:
            if instance_id == NEXT_LAUNCH:
                self.for_next_launches.append(replace(output, until=until))
            else:
                self.outputs[instance_id] = replace(output, until=until)

    def heal(self, instance_id: str) -> None:
        """Remove the injected output of one instance."""
        with self.lock:
            self.outputs.pop(instance_id, None)

    def on_launch(self, instance_id: str) -> None:
        """Give a new instance the oldest output that was set for `next`, if there is one."""
        with self.lock:
            if self.for_next_launches:
                self.outputs[instance_id] = self.for_next_launches.pop(0)

    def set_capacity(self, instance_type: str, zone: str, *, available: bool) -> None:
        """Remove or restore capacity; the zone `*` means all, and restoring it restores each zone."""
        with self.lock:
            if not available:
                self.without_capacity.add((instance_type, zone))
            elif zone == ANY_ZONE:
                self.without_capacity = {one for one in self.without_capacity if one[0] != instance_type}
            else:
                self.without_capacity.discard((instance_type, zone))

    def has_capacity(self, instance_type: str, zone: str) -> bool:
        """Return whether the instance type can be launched in the zone."""
        with self.lock:
            return self.without_capacity.isdisjoint({(instance_type, zone), (instance_type, ANY_ZONE)})

    def reset(self) -> None:
        """Remove every injected fault of instances and capacity."""
        with self.lock:
            self.outputs.clear()
            self.for_next_launches.clear()
            self.without_capacity.clear()


@dataclass(frozen=True, slots=True)
class LaunchFault:
    """The injected faults of one launch: it fails, it is slow, or its instance fails diagnostics."""

    fails: bool = False
    slow: bool = False
    bad: bool = False


@dataclass(frozen=True, slots=True)
class LaunchFaultRates:
    """Probabilities (0 to 1) that a launch fails, is slow or bad; seconds until it starts or is retried."""

    failing: float = 0.0
    slow: float = 0.0
    bad: float = 0.0
    slow_seconds: float = 5.0
    retry_seconds: float = 2.0


@dataclass(slots=True)
class LaunchFaults:
    """Selects the faults of launches; the same seed and order of launches give the same faults."""

    rates: LaunchFaultRates = LaunchFaultRates()
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - reproducible, no secret
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set_rates(self, seed: int, rates: LaunchFaultRates) -> None:
        """Set new fault rates, and restart the random sequence from the seed."""
        with self._lock:
            self.rates, self._random = rates, random.Random(seed)  # noqa: S311 - as above

    def next(self) -> LaunchFault:
        """Select the faults of the next launch at random; a failing launch is neither slow nor bad."""
        with self._lock:
            rates = (self.rates.failing, self.rates.slow, self.rates.bad)
            fails, slow, bad = (self._random.random() < rate for rate in rates)
        return LaunchFault(fails=True) if fails else LaunchFault(slow=slow, bad=bad)


FAULTS = ComputeFaults()
LAUNCH_FAULTS = LaunchFaults()
