"""`nvidia-smi-xml`: `nvidia-smi -q -x` as a health snapshot: what of each GPU could be read, and what of that is wrong.

Grammar: one `nvidia_smi_log` document, with or without DOCTYPE (v10 to v13); fields come and go with GPU and driver.
Units stay as printed. `N/A`, an absent element and `Requested functionality has been deprecated` are unknown: neither
well nor ill. Time: `timestamp`, the node's local time without a zone, taken as UTC. Errors: `Rejected` for anything
but a whole document, unless nvidia-smi said in words why there is none. Source: nvidia-smi 418 to 595,
nvsmi_device_v10 to v13.
"""

from __future__ import annotations

from faultbridge.decoders.base import Decoder, Hints
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.nvidia_smi_checks import LOST, NEEDS_RESET
from faultbridge.decoders.nvidia_smi_failures import failures, names_failure
from faultbridge.decoders.nvidia_smi_snapshot import Look, gpu_component, local_time, snapshot
from faultbridge.decoders.nvidia_smi_tree import GpuLog, read_log
from faultbridge.domain.faults import Observation
from faultbridge.errors import Rejected

SOURCE = "nvidia-smi-xml"
_WORDS = (LOST.encode(), NEEDS_RESET.encode())


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot every GPU of the document."""
    if b"<" not in body and names_failure(text_of(body)):
        return failures(SOURCE, text_of(body))
    log = read_log(body, _WORDS)
    if not log.gpus:
        raise Rejected("no_framing", "the document names no GPU")
    whole = log.attached in {None, str(len(log.gpus))}
    looks = (_look(gpu, index if whole else None) for index, gpu in enumerate(log.gpus))
    return (snapshot(SOURCE, looks, local_time(log.timestamp), whole=whole),)


def recognize(body: bytes) -> bool:
    """Tell whether the root element or its DOCTYPE is nvidia-smi's."""
    return b"<nvidia_smi_log" in body or b"DOCTYPE nvidia_smi_log" in body


def _look(gpu: GpuLog, index: int | None) -> Look:
    fields = gpu.fields
    names = (fields.get("uuid", ""), fields.get("serial", ""), index)
    component = gpu_component(gpu.address, *names)
    if component.pci is None:
        component = gpu_component(fields.get("pci/pci_bus_id", ""), *names)
    return Look(fields, component, gpu.words)


DECODER = Decoder(
    name=SOURCE,
    summary="nvidia-smi -q -x: a health snapshot of every GPU's health fields",
    example='<nvidia_smi_log><gpu id="00000000:53:00.0"><gpu_recovery_action>Reset</gpu_recovery_action></gpu>'
    "</nvidia_smi_log>",
    recognize=recognize,
    decode=decode,
)
