"""`nvidia-smi-text`: what nvidia-smi prints for people: `-q`, the table, `-L`, `nvlink -s`, its words on failure.

Grammar: `-q` is `Key : Value` or a heading, four spaces deeper for each level (`nvidia_smi_outline`); the others have
a line or two a GPU (`nvidia_smi_plain`). The same key occurs at several depths, so a field is its whole path. A text
that is cut off or indented otherwise is `Rejected`: it would show a GPU with half of its fields as well. Units stay as
printed. Time: the local time at the head, which names no zone, as UTC. Source: nvidia-smi 525 to 610. Errors:
`Rejected(no_framing)` where no line is nvidia-smi's.
"""

from __future__ import annotations

from faultbridge.decoders.base import Decoder, Hints
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.nvidia_smi_failures import failures, names_failure, stated_failures
from faultbridge.decoders.nvidia_smi_outline import is_outline, read_outline
from faultbridge.decoders.nvidia_smi_plain import is_links, is_list, is_table, read_links, read_list, read_table
from faultbridge.decoders.nvidia_smi_snapshot import snapshot
from faultbridge.domain.faults import Observation
from faultbridge.errors import Rejected

SOURCE = "nvidia-smi-text"


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot the GPUs of whichever output it is; sentences about failures may stand before, after or instead of it."""
    text = text_of(body)
    also = stated_failures(SOURCE, text)
    if is_outline(text):
        found = read_outline(text)
        return (snapshot(SOURCE, found.looks, found.at, whole=found.whole and not also, also=also),)
    if is_table(text):
        looks, at = read_table(text)
        return (snapshot(SOURCE, looks, at, whole=False, also=also),)
    if is_links(text):
        return (read_links(SOURCE, text),)
    if is_list(text):
        return (snapshot(SOURCE, read_list(text), None, whole=not also, also=also),)
    if names_failure(text):
        return failures(SOURCE, text)
    raise Rejected("no_framing", "none of nvidia-smi's outputs for people")


def recognize(body: bytes) -> bool:
    """Tell whether it is one of the outputs, or one of the sentences, and not XML or rows of fields."""
    text = text_of(body)
    if "<nvidia_smi_log" in text or "gpu_bus_id" in text or "pci.bus_id" in text:
        return False
    return is_outline(text) or is_table(text) or is_links(text) or is_list(text) or names_failure(text)


DECODER = Decoder(
    name=SOURCE,
    summary="nvidia-smi -q, its table, nvidia-smi -L and nvlink -s, and what nvidia-smi says when it fails",
    example="Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover it",
    recognize=recognize,
    decode=decode,
)
