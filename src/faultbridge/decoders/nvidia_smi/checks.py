"""Checks the nvidia-smi fields of one GPU. A check returns None if its fields cannot be read.

The name of a field is its path in the XML output, such as `ecc_errors/volatile/dram_uncorrectable`. Other output
formats use the same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import Action, Severity

LOST = "GPU is lost"
NEEDS_RESET = "GPU requires reset"
SENSOR_ERRORS = frozenset({"ERR!", "[ERR!]", "Unknown Error", "[Unknown Error]"})


@dataclass(frozen=True, slots=True)
class GpuCheckResult:
    """The result of one check on one GPU. `message` is empty if the check found no fault."""

    code: str
    message: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    severity: Severity | None = None
    action: Action | None = None


Fields = Mapping[str, str]
Check = Callable[[Fields], GpuCheckResult | None]


def check_results(gpu: Fields) -> Iterator[GpuCheckResult]:
    """Yield the result of each check whose fields can be read."""
    for check in CHECKS:
        found = check(gpu)
        if found is not None:
            yield found


def _flags(code: str, message: str, *paths: str, wrong: str = "Yes", good: str = "No") -> Check:
    def check(gpu: Fields) -> GpuCheckResult | None:
        values = {path: text for path in paths if (text := gpu.get(path)) in {wrong, good}}
        if not values:
            return None
        bad = {path.rpartition("/")[2]: text for path, text in values.items() if text == wrong}
        return GpuCheckResult(code, message if bad else "", bad)

    return check


def _clocks(code: str, message: str, reason: str) -> Check:
    paths = (
        f"clocks_event_reasons/clocks_event_reason_{reason}",
        f"clocks_throttle_reasons/clocks_throttle_reason_{reason}",
    )
    return _flags(code, message, *paths, wrong="Active", good="Not Active")


# SRAM errors are one number or two parts, by GPU and driver. Old GPUs have only a total. A GPU in MIG mode may count
# errors for each instance only.
_VOLATILE = "ecc_errors/volatile/"
_ECC_FIELDS: tuple[tuple[str, ...], ...] = (
    ("sram_uncorrectable_parity", "sram_uncorrectable_secded"),
    ("sram_uncorrectable",),
    ("double_bit/total",),
    ("mig_sram_uncorrectable",),
)


def _ecc(gpu: Fields) -> GpuCheckResult | None:
    dram = _counts(gpu, ("dram_uncorrectable",))
    counts = dram | next((found for names_of_total in _ECC_FIELDS if (found := _counts(gpu, names_of_total))), {})
    if not counts:
        return None
    nonzero = {name.replace("/", "_"): str(count) for name, count in counts.items() if count}
    total = sum(counts.values())
    message = f"{total} uncorrectable ECC errors since the driver was loaded." if total else ""
    return GpuCheckResult("smi.ecc_uncorrectable", message, nonzero)


def _counts(gpu: Fields, names: tuple[str, ...]) -> dict[str, int]:
    return {name: count for name in names if (count := _count(gpu.get(_VOLATILE + name))) is not None}


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


_MAX_DIGITS = 18
# NVIDIA accepts a board for return (RMA) from 60 retired pages.
MAX_RETIRED_PAGES = 60


def _retired_pages(gpu: Fields) -> GpuCheckResult | None:
    names = ("single_bit", "double_bit")
    counts = {name: count for name in names if (count := _count(gpu.get(f"retired_pages/{name}"))) is not None}
    if not counts:
        return None
    if sum(counts.values()) < MAX_RETIRED_PAGES:
        return GpuCheckResult("smi.retired_pages_limit")
    values = {f"{name}_pages": str(count) for name, count in counts.items()}
    return GpuCheckResult("smi.retired_pages_limit", f"{sum(counts.values())} memory pages are retired.", values)


@dataclass(frozen=True, slots=True)
class _Recovery:
    number: int
    severity: Severity
    action: Action


# Printed names of NVML's recovery actions; the severity and action of each number are those of Xid 154.
_RECOVERIES: Mapping[str, _Recovery] = {
    "Reset": _Recovery(1, Severity.FATAL, Action.RESET_GPU),
    "GPU Reset": _Recovery(1, Severity.FATAL, Action.RESET_GPU),
    "Reboot": _Recovery(2, Severity.FATAL, Action.REBOOT_NODE),
    "Node Reboot": _Recovery(2, Severity.FATAL, Action.REBOOT_NODE),
    "Drain P2P": _Recovery(3, Severity.ERROR, Action.RESET_GPU),
    "Drain and Reset": _Recovery(4, Severity.ERROR, Action.RESET_GPU),
}
_LEGACY_RECOVERY = (("reset_required", "Reset"), ("drain_and_reset_recommended", "Drain and Reset"))
_UNREADABLE = re.compile(r"\[?N/?A\]?|\[?Not Supported\]?|Requested functionality has been deprecated|", re.IGNORECASE)


def _recovery(gpu: Fields) -> GpuCheckResult | None:
    requested = gpu.get("gpu_recovery_action")
    if requested is None or _UNREADABLE.fullmatch(requested):
        requested = _legacy_recovery(gpu)
    if requested is None or requested == LOST:
        return None
    if requested == "None":
        return GpuCheckResult("smi.recovery_action")
    recovery = _RECOVERIES.get(requested)
    values = {"recovery_action": f"{recovery.number:#x}"} if recovery else {}
    return GpuCheckResult(
        "smi.recovery_action",
        f"The GPU requests recovery: {requested[:64]}.",
        values | {"recovery_action_text": requested[:64]},
        recovery.severity if recovery else None,
        recovery.action if recovery else None,
    )


def _legacy_recovery(gpu: Fields) -> str | None:
    values = {name: gpu.get(f"gpu_reset_status/{name}") for name, _ in _LEGACY_RECOVERY}
    if not any(text in {"Yes", "No"} for text in values.values()):
        return None
    return next((action for name, action in _LEGACY_RECOVERY if values[name] == "Yes"), "None")


def _fabric_health(gpu: Fields) -> GpuCheckResult | None:
    summary = gpu.get("fabric/health/summary")
    if summary is None or _UNREADABLE.fullmatch(summary) or summary == LOST:
        return None
    if summary == "Healthy":
        return GpuCheckResult("smi.fabric_unhealthy")
    names = (
        "bandwidth",
        "route_unhealthy",
        "route_recovery_in_progress",
        "access_timeout_recovery",
        "incorrect_configuration",
    )
    values = {name: text for name in names if (text := gpu.get(f"fabric/health/{name}")) not in _FABRIC_GOOD}
    bad = {name: text[:128] for name, text in values.items() if text}
    return GpuCheckResult(
        "smi.fabric_unhealthy", f"NVLink fabric health is {summary[:64]}.", bad | {"summary": summary[:64]}
    )


_FABRIC_GOOD = frozenset({None, "", "N/A", "Full", "False", "None"})


def _fabric_state(gpu: Fields) -> GpuCheckResult | None:
    """Check the registration of the GPU with the NVLink fabric.

    Returns None until the registration is complete, which takes minutes after a boot.
    """
    state, status = gpu.get("fabric/state"), gpu.get("fabric/status")
    if state != "Completed" or status is None or _UNREADABLE.fullmatch(status):
        return None
    message = "" if status == "Success" else f"NVLink fabric registration ended with {status[:128]}."
    return GpuCheckResult("smi.fabric_failed", message, {"status": status[:128]} if message else {})


def _sensors(gpu: Fields) -> GpuCheckResult | None:
    values = {name: text for name in _SENSORS if (text := gpu.get(name)) is not None}
    bad = {path.rpartition("/")[2]: text for path, text in values.items() if text in SENSOR_ERRORS}
    if bad:
        return GpuCheckResult("smi.sensor_unreadable", f"{', '.join(bad)} cannot be read.", bad)
    return GpuCheckResult("smi.sensor_unreadable") if any(text[:1].isdigit() for text in values.values()) else None


_SENSORS = (
    "fan_speed",
    "temperature/gpu_temp",
    "power_readings/power_draw",
    "gpu_power_readings/power_draw",
    "gpu_power_readings/instant_power_draw",
)
_SLOWDOWN = _clocks("smi.hw_slowdown", "The hardware reduced the clocks without a stated cause.", "hw_slowdown")
_THERMAL = _clocks("smi.hw_thermal_slowdown", "The hardware reduced the clocks because of heat.", "hw_thermal_slowdown")
_BRAKE = _clocks("smi.hw_power_brake", "An external power brake reduced the clocks.", "hw_power_brake_slowdown")


def _slowdown(gpu: Fields) -> GpuCheckResult | None:
    """Check the general reason for reduced clocks (`hw_slowdown`).

    It is no fault while a specific reason (heat or an external power brake) is active, because each specific reason has
    its own check.
    """
    found = _SLOWDOWN(gpu)
    causes = (_THERMAL(gpu), _BRAKE(gpu))
    return GpuCheckResult("smi.hw_slowdown") if any(cause and cause.message for cause in causes) else found


CHECKS: tuple[Check, ...] = (
    _recovery,
    _ecc,
    _flags("smi.row_remap_pending", "Row remapping is pending.", "remapped_rows/remapped_row_pending"),
    _flags("smi.row_remap_failure", "Row remapping has failed.", "remapped_rows/remapped_row_failure"),
    _flags(
        "smi.retired_pages_pending",
        "Page retirement is pending.",
        "retired_pages/pending_retirement",
        "retired_pages/pending_blacklist",
    ),
    _retired_pages,
    _flags(
        "smi.sram_threshold_exceeded",
        "The SRAM error threshold is exceeded.",
        "ecc_errors/aggregate/sram_threshold_exceeded",
    ),
    _flags("smi.unrepairable_memory", "Memory cannot be repaired.", "ecc_errors/unrepairable_memory"),
    _flags("smi.channel_repair_pending", "Memory channel repair is pending.", "ecc_errors/channel_repair_pending"),
    _flags("smi.tpc_repair_pending", "Processing cluster repair is pending.", "ecc_errors/tpc_repair_pending"),
    _fabric_health,
    _fabric_state,
    _THERMAL,
    _BRAKE,
    _clocks("smi.sw_thermal_slowdown", "The driver reduced the clocks because of heat.", "sw_thermal_slowdown"),
    _slowdown,
    _sensors,
)
