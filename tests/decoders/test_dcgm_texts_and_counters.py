"""DCGM's texts without error numbers, its health table, and the counters of its exporter."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultbridge.decide.normalize.compare import compare
from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.counters import thresholds
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, CounterSample, Fault, Snapshot, faults_of

TABLE = """Health Monitor Report
+----------------------------------------------------------------------------+
| Group 0            | Overall Health: Failure                               |
+====================+=======================================================+
| GPU 3              | Memory system: Failure                                |
|                    |   GPU 3 had memory errors and row remappings are      |
|                    |   pending                                             |
|                    | Driver: Warning                                       |
|                    |   something that has no name                          |
+----------------------------------------------------------------------------+
"""
NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


def report(text: str, health: str = "Failure") -> bytes:
    system = {"Driver": {"value": health, "overflow": text.split("|")}}
    gpu = {"children": {"0": {"children": {"Errors": {"children": system}}, "value": health}}}
    return json.dumps({"body": {"GPU": gpu, "Overall Health": {"value": health}}, "header": ["Health"]}).encode()


def health(body: bytes) -> list[Fault]:
    (snapshot,) = registry.decode("dcgm-health", body)
    assert isinstance(snapshot, Snapshot)
    assert all(one.component in snapshot.covers[one.code] for one in snapshot.present)
    return [load_catalog().classify(one) for one in snapshot.present]


@pytest.mark.parametrize(
    ("text", "code", "action"),
    [
        (
            "GPU 0 had uncorrectable memory errors and row|remapping failed.",
            "dcgm.row_remap_failure",
            Action.REPLACE_NODE,
        ),
        ("GPU 0 has fallen off the bus.", "dcgm.fallen_off_bus", Action.REPLACE_NODE),
        ("GPU 0 had memory errors and row remappings are|pending", "dcgm.pending_row_remap", Action.RESET_GPU),
        ("GPU 0 requires a reset. Recovery action: 1 (GPU_RESET).", "dcgm.gpu_recovery_reset", Action.RESET_GPU),
        ("GPU 0 requires a reboot.|Recovery action: 2 (NODE_REBOOT).", "dcgm.gpu_recovery_reboot", Action.REBOOT_NODE),
    ],
)
@pytest.mark.parametrize("level", ["Failure", "Warning"])
def test_the_text_of_a_health_incident_decides(text: str, code: str, action: Action, level: str) -> None:
    (fault,) = health(report(text, level))
    assert (fault.code, fault.action) == (code, action)


def test_a_warning_whose_text_names_no_fault_stays_a_warning() -> None:
    (fault,) = health(report("something else", "Warning"))
    assert (fault.code, fault.severity, fault.action) == ("dcgm.health_driver", Severity.WARNING, Action.NONE)


def test_the_table_of_a_health_check_is_read_like_its_json() -> None:
    assert registry.recognize(TABLE.encode()) == "dcgm-health"
    found = [(one.code, one.component.index, one.severity) for one in health(TABLE.encode())]
    assert found == [
        ("dcgm.pending_row_remap", 3, Severity.ERROR),
        ("dcgm.health_driver", 3, Severity.WARNING),
    ]
    healthy = "Health Monitor Report\n+---+\n| Group 0            | Overall Health: Healthy        |\n+---+\n"
    assert health(healthy.encode()) == []


GPU = Component(ComponentType.GPU, index=0)
LIMITS = sorted(one for source, one in thresholds() if source == "dcgm-metrics")


def rise(counter: str, by: int, seconds: int) -> list[str]:
    first = CounterSample("dcgm-metrics", GPU, {counter: 5}, NOON)
    second = CounterSample("dcgm-metrics", GPU, {counter: 5 + by}, NOON + timedelta(seconds=seconds))
    return [load_catalog().classify(one).severity.value for one in compare(first, second)]  # type: ignore[union-attr]  # classified


@pytest.mark.parametrize("counter", LIMITS)
def test_a_counter_of_the_exporter_is_a_warning_only_above_its_limit(counter: str) -> None:
    limit = thresholds()["dcgm-metrics", counter]
    seconds = limit.seconds or 30
    # What a link could not correct is an error; all else is a warning first.
    severity = "error" if limit.code == "dcgm.nvlink_recovery_failed" else "warning"
    assert rise(counter, limit.limit + 1, seconds) == [severity]
    assert rise(counter, limit.limit, seconds) == []
    assert rise(counter, -5, seconds) == []


def test_a_counter_with_a_limit_is_kept_from_a_scrape() -> None:
    for counter in LIMITS:
        (sample,) = registry.decode("dcgm-metrics", f'{counter}{{gpu="0",UUID="GPU-0a"}} 7\n'.encode())
        assert isinstance(sample, CounterSample)
        assert sample.values == {counter: 7}


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("COUNT_RX_SYMBOL_ERRORS", "dcgm.nvlink_packet_errors"),
        ("RX_SYMBOL_ERROR_TOTAL", "dcgm.nvlink_packet_errors"),
        ("COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", "dcgm.nvlink_recoveries"),
        ("COUNT_LINK_RECOVERY_FAILED_EVENTS", "dcgm.nvlink_recovery_failed"),
        ("RECOVERY_FAILED_TOTAL", "dcgm.nvlink_recovery_failed"),
        ("COUNT_RX_REMOTE_ERRORS", None),
        ("COUNT_TX_PACKETS", None),
        ("COUNT_TX_DISCARDS", None),
    ],
)
def test_the_counters_of_nvlink5_are_judged_and_those_of_the_other_side_are_not(field: str, code: str | None) -> None:
    labels = '{gpu="0",UUID="GPU-0a",modelName="NVIDIA B200"}'
    scrapes = [f"DCGM_FI_DEV_NVLINK_{field}{labels} {n}\nDCGM_FI_DEV_PCIE_REPLAY_COUNTER{labels} 3\n" for n in (0, 1)]
    first, second = (registry.decode("dcgm-metrics", scrape.encode()) for scrape in scrapes)
    assert [isinstance(one, CounterSample) for one in first] == [True]
    found = [one.code for before, after in zip(first, second, strict=True) for one in compared(before, after)]
    assert found == ([code] if code else [])


def compared(before: object, after: object) -> list[Fault]:
    if not isinstance(before, CounterSample) or not isinstance(after, CounterSample):
        return []
    return list(compare(before, after))


LINKS = "GPU {0}: NVIDIA H100 80GB HBM3 (UUID: GPU-0{0})\n{1}"
UP = "".join(f"\t Link {n}: 26.562 GB/s\n" for n in range(18))
DOWN = "".join(f"\t Link {n}: <inactive>\n" for n in range(18))
NONE = "NVML: Unable to retrieve NVLink information as all links are inactive\n"


@pytest.mark.parametrize("lost", [DOWN, NONE])
def test_a_gpu_without_links_beside_gpus_with_links_is_a_fault(lost: str) -> None:
    body = "".join(LINKS.format(n, lost if n == 3 else UP) for n in range(8)).encode()
    (snapshot,) = registry.decode("nvidia-smi-text", body)
    assert isinstance(snapshot, Snapshot)
    (fault,) = snapshot.present
    assert (fault.code, fault.component.index, fault.severity) == ("smi.nvlink_inactive", 3, Severity.ERROR)


@pytest.mark.parametrize("lines", [30, 60, 90, 120, 150, 180, 210])
def test_a_whole_query_that_was_cut_off_is_rejected(lines: int, shared: Path) -> None:
    whole = (shared / "samples" / "nvidia-smi-q__h100x8-hw-power-brake-slowdown-535.txt").read_text("utf-8")
    kept = whole.split("\n")[: len(whole.split("\n")) - lines]
    with pytest.raises(Rejected):
        registry.decode("nvidia-smi-text", "\n".join([*kept, ""]).encode())


def test_cards_of_which_none_has_links_are_no_fault() -> None:
    body = "".join(LINKS.replace("80GB HBM3", "PCIe").format(n, DOWN) for n in range(4)).encode()
    (snapshot,) = registry.decode("nvidia-smi-text", body)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.present == ()


NESTED = """root@gpu-1:~# dcgmi health -c -g 2
+------------------------+---------------------------------------------------+
| Health Monitor Report                                                      |
+========================+===================================================+
| Overall Health         | {health}                                           |
| GPU                    |                                                   |
| -> 2                   | Failure                                           |
|    -> Errors           |                                                   |
|       -> Memory system | Failure                                           |
|                        | GPU 2 had memory errors and row remappings are    |
|                        | pending                                           |
|       -> Driver        | Warning                                           |
|                        | something that has no name                        |
| -> 6                   | Failure                                           |
|    -> Errors           |                                                   |
|       -> PCIe system   | Failure                                           |
|                        | GPU 6 has fallen off the bus.                     |
+------------------------+---------------------------------------------------+
"""


def test_the_table_that_prints_each_level_as_a_row_is_read_like_the_json() -> None:
    found = health(NESTED.format(health="Failure").encode())
    assert [(one.component.index, one.code, one.severity) for one in found] == [
        (2, "dcgm.pending_row_remap", Severity.ERROR),
        (2, "dcgm.health_driver", Severity.WARNING),
        (6, "dcgm.fallen_off_bus", Severity.FATAL),
    ]
    assert found[0].message == "GPU 2 had memory errors and row remappings are pending"
    assert registry.recognize(NESTED.format(health="Failure").encode()) == "dcgm-health"


def test_a_healthy_table_with_nested_rows_has_no_fault() -> None:
    body = NESTED.format(health="Healthy").partition("| GPU  ")[0] + "+---+---+\n"
    assert health(body.encode()) == []


@pytest.mark.parametrize("number", [1, 2, 9999])
def test_the_text_of_a_diagnostic_decides_if_its_number_has_no_meaning(number: int) -> None:
    def code(text: str) -> str:
        warning = {"warning": text, "error_id": number, "error_severity": 2, "error_category": 1}
        result = {"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": [warning]}
        tests = [{"name": "memory", "results": [result], "test_summary": {"status": "Fail"}}]
        report = {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}}
        (found,) = (
            fault for one in registry.decode("dcgm-diag", json.dumps(report).encode()) for fault in faults_of(one)
        )
        return found.code

    assert code("GPU 3 had uncorrectable memory errors and row remapping failed.") == "dcgm.row_remap_failure"
    assert code("something else") == {1: "dcgm.unknown", 2: "dcgm.unrecognized"}.get(number, f"dcgm.error_{number}")
