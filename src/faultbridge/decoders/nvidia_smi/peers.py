"""Compares the PCIe link widths of GPUs of the same model in one output of nvidia-smi.

A slot can have fewer lanes than its GPU supports, as in many instance types, so the maximum of the GPU itself proves
nothing. A GPU with fewer lanes than another GPU of the same model on the same node has lost lanes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from faultbridge.decoders.nvidia_smi.checks import Fields, GpuCheckResult

FEWER_LANES = "host.pcie_width_reduced"
WIDTH = "pci/pci_gpu_link_info/link_widths/current_link_width"
_LANES = re.compile(r"(\d{1,2})x?")


def width_results(gpus: Sequence[Fields]) -> Iterator[tuple[int, GpuCheckResult]]:
    """Yield the width check of each GPU that can be compared with a GPU of the same model.

    Each pair has the index of the GPU in `gpus`, and the result of its check.
    """
    lanes_of: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for position, gpu in enumerate(gpus):
        found = _LANES.fullmatch(gpu.get(WIDTH, ""))
        if found is not None and _model(gpu):
            lanes_of[_model(gpu)][position] = int(found[1])
    for lanes in lanes_of.values():
        most = max(lanes.values())
        for position, count in lanes.items() if len(lanes) > 1 else ():
            yield position, _result(count, most)


def _result(count: int, most: int) -> GpuCheckResult:
    if count >= most:
        return GpuCheckResult(FEWER_LANES)
    text = f"The GPU uses {count} PCIe lanes; another one of its model uses {most}."
    details: Mapping[str, str] = {"lanes": str(count), "lanes_of_peers": str(most)}
    return GpuCheckResult(FEWER_LANES, text, details)


def _model(gpu: Fields) -> str:
    return gpu.get("product_name") or gpu.get("name") or gpu.get("gpu_name") or ""
