"""`dcgm-diag`: the table that `dcgmi diag` prints without `-j`."""

from __future__ import annotations

from faultbridge.decode import registry
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Fault

TABLE = """+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
{}
+---------------------------+------------------------------------------------+
"""


def table(*rows: tuple[str, str]) -> tuple[Fault, ...]:
    """Return the faults in a table whose cells are cut after 45 characters, as dcgmi does it."""
    lines = []
    for name, text in rows:
        chunks = [text[at : at + 45] for at in range(0, len(text), 45)]
        lines += [f"| {name if not n else '':<26}| {chunk:<47}|" for n, chunk in enumerate(chunks)]
    body = TABLE.format("\n".join(lines)).encode()
    assert registry.recognize(body) == "dcgm-diag"
    return tuple(one for one in registry.decode("dcgm-diag", body) if isinstance(one, Fault))


def test_a_table_without_a_failure_has_no_fault() -> None:
    assert (
        table(("Denylist", "Pass"), ("GPU Memory", "Pass - All"), ("EUD Test", "Skip - All"), ("Info", "GPU 0 x")) == ()
    )
    assert table(("software", "Pass"), ("", "GPU0: Pass"), ("", "GPU1: Skip")) == ()


def test_a_failure_in_a_table_names_its_gpu_and_its_text_decides() -> None:
    text = "GPU 3 had uncorrectable memory errors and row remapping failed. Run a field diagnostic on the GPU."
    (fault,) = table(
        ("GPU Memory", "Pass - GPUs: 1, 2"), ("", "Fail - GPU: 3"), ("Warning", text), ("PCIe", "Pass - All")
    )
    assert (fault.code, fault.component.index, fault.message) == ("dcgm.row_remap_failure", 3, text)


def test_each_gpu_that_failed_without_a_text_is_a_fault() -> None:
    found = table(("memory", "Fail"), ("", "GPU0: Fail"), ("", "GPU1: Pass"), ("", "GPU2: Fail"))
    assert [(one.code, one.component.index) for one in found] == [("dcgm.diag_failed", 0), ("dcgm.diag_failed", 2)]
    assert [one.component.type for one in table(("PCIe", "Fail - All"))] == [ComponentType.NODE]


def test_a_setting_in_a_table_is_no_hardware_fault() -> None:
    text = 'Persistence mode for GPU 0 is disabled. Enable persistence mode by running "nvidia-smi -i 0 -pm 1".'
    for test in ("Persistence Mode", "software"):
        assert [one.code for one in table((test, "Fail"), ("Warning: GPU0", text))] == ["dcgm.persistence_mode"]
