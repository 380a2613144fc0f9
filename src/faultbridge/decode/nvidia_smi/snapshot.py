"""Builds the health snapshot of a node's GPUs from the output of nvidia-smi, in any format."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from faultbridge.decode.data import table
from faultbridge.decode.frames.clock import MONTHS, calendar_time
from faultbridge.decode.frames.decoder import Judged, evidence, fault_of, snapshot_of, truncate
from faultbridge.decode.frames.values import bounded, digits, pci_of
from faultbridge.decode.kernel.xid import recovery_verdict
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Snapshot

# Checks the nvidia-smi fields of one GPU. A check yields nothing if its fields cannot be read.
#
# The name of a field is its path in the XML output, such as `ecc_errors/volatile/dram_uncorrectable`. Other output
# formats use the same names.

LOST = "GPU is lost"
NEEDS_RESET = "GPU requires reset"
_SENSOR_ERRORS = frozenset({"ERR!", "[ERR!]", "Unknown Error", "[Unknown Error]"})


class GpuCheckResult(Struct, frozen=True):
    """The result of one check on one GPU. `message` is empty if the check found no fault."""

    code: str
    message: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    severity: Severity | None = None
    action: Action | None = None


Fields = Mapping[str, str]
_Results = Iterator[GpuCheckResult]
_CLOCKS = ("clocks_event_reasons/clocks_event_reason_", "clocks_throttle_reasons/clocks_throttle_reason_")


def _flags(gpu: Fields) -> _Results:
    for row in table("nvidia_smi")["flags"]:
        values = {path: text for path in row["fields"] if (text := gpu.get(path)) in {"Yes", "No"}}
        if values:
            bad = {path.rpartition("/")[2]: text for path, text in values.items() if text == "Yes"}
            yield GpuCheckResult(row["code"], row["message"] if bad else "", bad)


def _clocks(gpu: Fields) -> _Results:
    for row in table("nvidia_smi")["clocks"]:
        paths = [path + row["reason"] for path in _CLOCKS]
        bad = {path.rpartition("/")[2]: "Active" for path in paths if gpu.get(path) == "Active"}
        if any(gpu.get(path + cause) == "Active" for path in _CLOCKS for cause in row.get("unless", ())):
            yield GpuCheckResult(row["code"])
        elif bad or any(gpu.get(path) == "Not Active" for path in paths):
            yield GpuCheckResult(row["code"], row["message"] if bad else "", bad)


# SRAM errors are one number or two parts, by GPU and driver. Old GPUs have only a total. A GPU in MIG mode may count
# errors for each instance only.
_VOLATILE = "ecc_errors/volatile/"
_ECC_FIELDS: tuple[tuple[str, ...], ...] = (
    ("sram_uncorrectable_parity", "sram_uncorrectable_secded"),
    ("sram_uncorrectable",),
    ("double_bit/total",),
    ("mig_sram_uncorrectable",),
)


def _ecc(gpu: Fields) -> _Results:
    dram = _counts(gpu, _VOLATILE, ("dram_uncorrectable",))
    counts = dram | next((found for names in _ECC_FIELDS if (found := _counts(gpu, _VOLATILE, names))), {})
    if counts:
        nonzero = {name.replace("/", "_"): str(count) for name, count in counts.items() if count}
        total = sum(counts.values())
        message = f"{total} uncorrectable ECC errors since the driver was loaded." if total else ""
        yield GpuCheckResult("smi.ecc_uncorrectable", message, nonzero)


def _counts(gpu: Fields, section: str, names: Iterable[str]) -> dict[str, int]:
    return {name: count for name in names if (count := digits(gpu.get(section + name), _MAX_DIGITS)) is not None}


_MAX_DIGITS = 18

# NVIDIA accepts a board for return (RMA) from 60 retired pages.
_MAX_RETIRED_PAGES = 60


def _retired_pages(gpu: Fields) -> _Results:
    counts = _counts(gpu, "retired_pages/", ("single_bit", "double_bit"))
    total = sum(counts.values())
    if total >= _MAX_RETIRED_PAGES:
        values = {f"{name}_pages": str(count) for name, count in counts.items()}
        yield GpuCheckResult("smi.retired_pages_limit", f"{total} memory pages are retired.", values)
    elif counts:
        yield GpuCheckResult("smi.retired_pages_limit")


_LEGACY_RECOVERY = (("reset_required", "Reset"), ("drain_and_reset_recommended", "Drain and Reset"))
_UNREADABLE = re.compile(r"\[?N/?A\]?|\[?Not Supported\]?|Requested functionality has been deprecated|", re.IGNORECASE)


def _recovery(gpu: Fields) -> _Results:
    requested = gpu.get("gpu_recovery_action")
    if requested is None or _UNREADABLE.fullmatch(requested):
        legacy = {action: gpu.get(f"gpu_reset_status/{name}") for name, action in _LEGACY_RECOVERY}
        is_readable = not {"Yes", "No"}.isdisjoint(legacy.values())
        requested = next((action for action, text in legacy.items() if text == "Yes"), "None") if is_readable else None
    if requested == "None":
        yield GpuCheckResult("smi.recovery_action")
    elif requested is not None and requested != LOST:
        number = table("nvidia_smi")["recoveries"].get(requested)
        stated = {"recovery_action": f"{number:#x}"} if number else {}
        severity, action = (recovery_verdict(number) if number else None) or (None, None)
        text, stated = requested[:64], {**stated, "recovery_action_text": requested[:64]}
        yield GpuCheckResult("smi.recovery_action", f"The GPU requests recovery: {text}.", stated, severity, action)


_FABRIC_GOOD = frozenset({None, "", "N/A", "Full", "False", "None"})
_FABRIC_FIELDS = (
    *("bandwidth", "route_unhealthy", "route_recovery_in_progress", "access_timeout_recovery"),
    "incorrect_configuration",
)


def _fabric(gpu: Fields) -> _Results:
    """Check the health of the NVLink fabric, the result of the registration with it, and that the GPU has registered.

    For minutes after a boot, a GPU that has not registered is only a warning.
    """
    summary, state, status = (gpu.get(f"fabric/{name}") for name in ("health/summary", "state", "status"))
    if summary == "Healthy":
        yield GpuCheckResult("smi.fabric_unhealthy")
    elif summary is not None and summary != LOST and not _UNREADABLE.fullmatch(summary):
        bad = {name: gpu.get(f"fabric/health/{name}") for name in _FABRIC_FIELDS}
        stated = {name: text[:128] for name, text in bad.items() if text and text not in _FABRIC_GOOD}
        text = f"NVLink fabric health is {summary[:64]}."
        yield GpuCheckResult("smi.fabric_unhealthy", text, stated | {"summary": summary[:64]})
    if state == "Completed" and status is not None and not _UNREADABLE.fullmatch(status):
        failed = "" if status == "Success" else f"NVLink fabric registration ended with {status[:128]}."
        yield GpuCheckResult("smi.fabric_failed", failed, {"status": status[:128]} if failed else {})
    if state == "Completed":
        yield GpuCheckResult("smi.fabric_not_ready")
    elif state in {"In Progress", "Not Started"}:
        text = f"The GPU has not joined the NVLink fabric: {state}."
        yield GpuCheckResult("smi.fabric_not_ready", text, {"state": state}, Severity.WARNING, Action.NONE)


def _sensors(gpu: Fields) -> _Results:
    values = {name: text for name in _SENSORS if (text := gpu.get(name)) is not None}
    bad = {path.rpartition("/")[2]: text for path, text in values.items() if text in _SENSOR_ERRORS}
    if bad or any(text[:1].isdigit() for text in values.values()):
        yield GpuCheckResult("smi.sensor_unreadable", f"{', '.join(bad)} cannot be read." if bad else "", bad)


_SENSORS = (
    "fan_speed",
    "temperature/gpu_temp",
    "power_readings/power_draw",
    "gpu_power_readings/power_draw",
    "gpu_power_readings/instant_power_draw",
)
_CHECKS = (_recovery, _ecc, _flags, _retired_pages, _fabric, _clocks, _sensors)


# Compares the PCIe link widths of GPUs of the same model in one output of nvidia-smi.
#
# A slot can have fewer lanes than its GPU supports, as in many instance types, so the maximum of the GPU itself proves
# nothing. A GPU with fewer lanes than another GPU of the same model on the same node has lost lanes.

_FEWER_LANES = "host.pcie_width_reduced"
_WIDTH = "pci/pci_gpu_link_info/link_widths/current_link_width"
_LANES = re.compile(r"(\d{1,2})x?")


def _width_results(gpus: Sequence[Fields]) -> Iterator[tuple[int, GpuCheckResult]]:
    """Yield the width check of each GPU that can be compared with a GPU of the same model, after its index."""
    lanes_of: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for position, gpu in enumerate(gpus):
        found = _LANES.fullmatch(gpu.get(_WIDTH, ""))
        model = gpu.get("product_name") or gpu.get("name") or gpu.get("gpu_name")
        if found is not None and model:
            lanes_of[model][position] = int(found[1])
    for lanes in lanes_of.values():
        most = max(lanes.values())
        for position, count in lanes.items() if len(lanes) > 1 else ():
            if count < most:
                text = f"The GPU uses {count} PCIe lanes; another one of its model uses {most}."
                yield position, GpuCheckResult(_FEWER_LANES, text, {"lanes": str(count), "lanes_of_peers": str(most)})
            else:
                yield position, GpuCheckResult(_FEWER_LANES)


_LOST_CODE = "smi.gpu_lost"
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,64}")
_TIMESTAMP = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})")
_MONTHS = frozenset(MONTHS)
_MAX_SERIAL = 32


class GpuOutput(Struct, frozen=True):
    """The output about one GPU: its fields and its component.

    `texts` are all values and other texts in the output. nvidia-smi can replace any value by a message that the GPU is
    lost or requires a reset, so all texts are searched for these messages.
    """

    fields: Fields
    component: Component
    texts: frozenset[str] = frozenset()


def gpu_snapshot(
    source: str,
    outputs: Iterable[GpuOutput],
    at: datetime | None,
    *,
    complete: bool,
    stated_faults: Iterable[Fault] = (),
    node: str | None = None,
) -> Snapshot:
    """Return a health snapshot of the GPUs.

    - `at` is the time of the output, and `node` the host name in the output. Both are None if the output lacks them.
    - `complete` means that the output lists all GPUs of the node. The snapshot then also states which devices the node
      has.
    - `stated_faults` are the faults from error messages.
    - A lost GPU has only the fault that it is lost, and clears no fault, because nothing of it was checked.
    """
    gpus = bounded(outputs)
    compared = dict(_width_results([gpu.fields for gpu in gpus]))
    judged: list[Judged] = [(fault.code, fault.component, fault) for fault in stated_faults]
    judged += (
        (one.code, gpu.component, _fault(source, one, gpu.component, at, node) if one.message else None)
        for position, gpu in enumerate(gpus)
        for one in _results(gpu, compared.get(position))
    )
    # A query of single GPUs (`-i`) does not list the other GPUs of the node.
    return snapshot_of(source, judged, at, node, tuple(gpu.component for gpu in gpus) if complete else ())


def gpu_component(address: str, uuid: str, serial: str, index: int | None) -> Component:
    """Return a GPU component; an address, UUID or serial number that is not valid is left out."""
    return Component(
        ComponentType.GPU,
        pci=pci_of(address),
        uuid=uuid if _UUID.fullmatch(uuid) else None,
        index=index,
        serial=serial if serial.isalnum() and len(serial) <= _MAX_SERIAL else None,
    )


def add_mig_errors(fields: dict[str, str], text: str) -> None:
    """Add the uncorrectable SRAM errors of one MIG instance, as printed, to the sum of its GPU."""
    total = "ecc_errors/volatile/mig_sram_uncorrectable"
    if (count := digits(text, _MAX_DIGITS)) is not None:
        fields[total] = str(int(fields.get(total, "0")) + count)


def local_time(text: str) -> datetime | None:
    """Return the time of a text such as `Tue Feb 3 04:05:06 2026`, or None for other text."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None or found[1] not in _MONTHS:
        return None
    return calendar_time(*found.groups())


def _results(output: GpuOutput, compared: GpuCheckResult | None) -> list[GpuCheckResult]:
    texts = output.texts
    if LOST in texts or f"[{LOST}]" in texts:
        return [GpuCheckResult(_LOST_CODE, "GPU is lost.")]
    checked = (result for check in _CHECKS for result in check(output.fields))
    results = [GpuCheckResult(_LOST_CODE), *checked, *([compared] if compared else [])]
    if NEEDS_RESET in texts or f"[{NEEDS_RESET}]" in texts:
        recovery = {"recovery_action": "0x1", "recovery_action_text": NEEDS_RESET}
        needs = GpuCheckResult("smi.recovery_action", "GPU requires reset.", recovery, Severity.FATAL, Action.RESET_GPU)
        results = [item for item in results if item.code != needs.code] + [needs]
    return results


def _fault(source: str, result: GpuCheckResult, component: Component, at: datetime | None, node: str | None) -> Fault:
    details = ", ".join(f"{name}: {text}" for name, text in result.attributes.items())
    message, raw, code = truncate(result.message), evidence(details or result.message), result.code
    verdict = result.severity, result.action
    return Fault(source, code, component, message, at, raw, result.attributes, *verdict, node)


# Reads the error messages that nvidia-smi prints, instead of its usual output or within it.
#
# A lost GPU is `Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. ...` or `...: Unknown Error`,
# with or without a space before the address, and with or without an index. The other messages are about the driver.
# Source: nvidia-smi's man page (exit codes 6, 9, 14, 15, 255) and captures.

_BDF = r"([0-9a-fA-F]{1,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])"
_HANDLE = re.compile(rf"Unable to determine the device handle for GPU ?(?:(\d{{1,3}}): ?)?{_BDF}: (.{{1,100}})")
_INFOROM = re.compile(rf"WARNING: infoROM is corrupted at gpu {_BDF}", re.IGNORECASE)
_DRIVER_ERRORS: Mapping[str, str] = table("nvidia_smi")["messages"]
_NO_PERMISSION = "Failed to initialize NVML: Insufficient Permissions"
_ANY = (
    "Unable to determine the device handle for GPU",
    "WARNING: infoROM is corrupted",
    *_DRIVER_ERRORS,
    _NO_PERMISSION,
)


def has_failure(text: str) -> bool:
    """Return whether a text contains an error message of nvidia-smi."""
    return any(message in text for message in _ANY)


def failures(source: str, text: str) -> tuple[Snapshot, ...]:
    """Return the health snapshot of an nvidia-smi run that printed only error messages.

    The snapshot contains the faults that the messages report, and clears no other fault, because nvidia-smi checked
    nothing else. Raises `Rejected` if nvidia-smi had no permission and the messages report no fault.
    """
    found = find_failures(source, text)
    if not found and _NO_PERMISSION in text:
        raise Rejected(
            "insufficient_permissions", "nvidia-smi has insufficient permissions; run it with access to the driver"
        )
    return (gpu_snapshot(source, (), None, complete=False, stated_faults=found),)


def find_failures(source: str, text: str) -> tuple[Fault, ...]:
    """Return the faults that the error messages in a text report, without duplicates."""
    if not has_failure(text):  # one search of the whole text instead of one for each line
        return ()
    faults = (_fault_of_failures(source, line.strip()) for line in text.split("\n") if has_failure(line))
    found: dict[tuple[str, Component], Fault] = {}
    for fault in filter(None, faults):
        if (fault.code, fault.component) not in found:
            found[fault.code, fault.component] = fault
            bounded(found)
    return tuple(found.values())


def _fault_of_failures(source: str, line: str) -> Fault | None:
    handle = _HANDLE.search(line)
    if handle is not None:
        gpu = _gpu(handle[2], handle[1] or "")
        return fault_of(source, "smi.gpu_lost", gpu, line, error=handle[3].rstrip("."))
    corrupted = _INFOROM.search(line)
    if corrupted is not None:
        return fault_of(source, "smi.inforom_corrupted", _gpu(corrupted[1]), line)
    code = next((code for message, code in _DRIVER_ERRORS.items() if message in line), None)
    return fault_of(source, code, NODE_COMPONENT, line) if code else None


def _gpu(address: str, index: str = "") -> Component:
    # nvidia-smi may print an impossible function number; the rest of the address is still used.
    bus, _, function = address.rpartition(".")
    return Component(ComponentType.GPU, pci=pci_of(f"{bus}.{function}") or pci_of(bus), index=digits(index, 3))
