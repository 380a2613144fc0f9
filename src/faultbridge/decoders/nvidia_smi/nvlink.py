"""Reads `nvidia-smi nvlink -s` and `-e`: the state and the error counters of the NVLinks of each GPU.

Grammar: `GPU N: MODEL (UUID: U)`, without the UUID in new drivers, then `Link N: SPEED GB/s`, `Link N: <inactive>` or
`Link N: NAME Errors: COUNT`, or one message that all links are inactive. One text can contain both outputs. Units:
errors since the driver was loaded. Source: nvidia-smi 525 to 580, NVML's NVLink error counters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.fields import bounded
from faultbridge.decoders.nvidia_smi.snapshot import gpu_component, index_of, stated_fault
from faultbridge.domain.faults import (
    Action,
    Component,
    CounterSample,
    Fault,
    Observation,
    Severity,
    Snapshot,
)

LINK_CODE = "smi.nvlink_inactive"
_GPU = re.compile(
    r"^GPU (\d{1,3}): ([^\n(]{1,100}?)(?: \(UUID: (GPU-[0-9A-Za-z-]{1,64})\))?[ \t\r]{0,8}$", re.MULTILINE
)
_STATE = re.compile(r"^[ \t]{1,16}Link (\d{1,3}): (<inactive>|[\d.]{1,10} GB/s)", re.MULTILINE)
_ERRORS = re.compile(r"^[ \t]{1,16}Link \d{1,3}: ([A-Z][A-Za-z ]{2,24}) Errors: (\d{1,18})[ \t\r]{0,8}$", re.MULTILINE)
# Drivers print `NVLink` or `Nvlink`, and `inactive` or `inActive`.
_ALL_INACTIVE = re.compile(
    r"\s{1,16}(?:NVML: )?Unable to retrieve NVLink information as all links are inactive", re.IGNORECASE
)
_INACTIVE = "<inactive>"
# The names of DCGM's counters of the same errors, which have the thresholds; NVML's CRC errors are those of flits.
_COUNTERS: Mapping[str, str] = {
    "CRC": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "CRC Flit": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "CRC Data": "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "Replay": "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "Recovery": "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
}


@dataclass(slots=True)
class _LinkedGpu:
    """One GPU with the state of each of its links, by link number, and with its error counts.

    The input can list the errors of a GPU several times. `errors` has one item for each list, the earliest first: the
    count of each kind of error, added up over all links of the GPU. `all_inactive` is True if a message reports that
    all links of the GPU are inactive.
    """

    component: Component
    model: str
    states: dict[str, str] = field(default_factory=dict)
    errors: list[dict[str, int | str]] = field(default_factory=list)
    all_inactive: bool = False


def is_links(text: str) -> bool:
    """Return whether a text lists the states or the error counts of NVLinks."""
    return _GPU.search(text) is not None and (_STATE.search(text) or _ERRORS.search(text)) is not None


def read_links(source: str, text: str) -> tuple[Observation, ...]:
    """Return a health snapshot of the link states, and the counter samples of the NVLink errors.

    The snapshot is left out if the text lists no link states. There is one counter sample for each GPU in each error
    listing.
    """
    gpus = list(_gpus(text))
    samples = (CounterSample(source, gpu.component, errors) for gpu in gpus for errors in gpu.errors)
    has_states = any(gpu.states for gpu in gpus)
    return (*([_snapshot(source, gpus)] if has_states else []), *samples)


def _gpus(text: str) -> Iterator[_LinkedGpu]:
    headings = bounded(_GPU.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    found: dict[tuple[str, str | None], _LinkedGpu] = {}
    for heading, end in zip(headings, ends, strict=True):
        number, model, uuid = heading.groups()
        # GPUs of two nodes can have the same number.
        gpu = found.setdefault((number, uuid), _LinkedGpu(gpu_component("", uuid or "", "", index_of(number)), model))
        gpu.states |= dict(_STATE.findall(text, heading.end(), end))
        gpu.all_inactive = gpu.all_inactive or _ALL_INACTIVE.match(text, heading.end(), end) is not None
        errors: dict[str, int | str] = {}
        for name, count in _ERRORS.findall(text, heading.end(), end):
            if name in _COUNTERS:
                errors[_COUNTERS[name]] = int(errors.get(_COUNTERS[name], 0)) + int(count)
        if errors:
            gpu.errors.append(errors)
    yield from found.values()


def _snapshot(source: str, gpus: list[_LinkedGpu]) -> Snapshot:
    """Return a health snapshot with a fault for each GPU that has inactive links.

    A GPU without any active link has a fault only if another GPU of the same model has active links. Without such a
    GPU, the model may have no NVLink, and the GPU is not checked. A GPU whose link states are not in the text is not
    checked either.
    """
    present: list[Fault] = []
    covered: list[Component] = []
    # A model without NVLinks lists no active link, so a GPU lost its links only if a GPU of its model has active ones.
    linked_models = {gpu.model for gpu in gpus if any(one != _INACTIVE for one in gpu.states.values())}
    for gpu in gpus:
        inactive = sorted(int(number) for number, speed in gpu.states.items() if speed == _INACTIVE)
        if len(inactive) == len(gpu.states):
            if gpu.model in linked_models and (gpu.states or gpu.all_inactive):
                covered.append(gpu.component)
                lost = stated_fault(source, LINK_CODE, gpu.component, "All NVLinks inactive.", {"links": "all"})
                present.append(lost.classified(Severity.ERROR, Action.RESET_GPU))
            continue
        covered.append(gpu.component)
        if inactive:
            numbers = ", ".join(map(str, inactive))
            text = f"NVLink {numbers} inactive."
            present.append(stated_fault(source, LINK_CODE, gpu.component, text, {"links": numbers}))
    return Snapshot(source, {LINK_CODE: tuple(covered)} if covered else {}, tuple(present))
