"""Sample outputs of `dcgmi diag -j` in the format of DCGM 4, written for this project."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

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
        "DCGM Diagnostic": {
            "test_categories": [{"category": name, "tests": [test]} for name, test in tests.items()],
        },
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}],
        "metadata": {"Driver Version Detected": "570.133.20", "version": "4.2.3"},
    }
    return json.dumps(document, indent=1)


def _test(name: str, info: Callable[[int], str] | None = None) -> Document:
    results = [_result(gpu) | ({"info": [info(gpu)]} if info else {}) for gpu in range(_GPUS)]
    return {"name": name, "results": results, "test_summary": {"status": "Pass"}}


def _result(gpu: int) -> Document:
    return {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"}
