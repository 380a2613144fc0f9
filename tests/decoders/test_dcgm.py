"""The decoders of DCGM's health checks, diagnostics and exporter."""

from __future__ import annotations

import json

import pytest

from faultbridge.decode import registry
from faultbridge.decode.dcgm.diag import read_report
from faultbridge.decode.dcgm.health import MAX_GPUS
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, CounterSample, Fault, Snapshot
from tests.decoders.captures import SAMPLES, decoded


def gpu(index: int) -> Component:
    return Component(ComponentType.GPU, index=index)


def health(name: str) -> Snapshot:
    (found,) = decoded("dcgm-health", name)
    assert isinstance(found, Snapshot)
    return found


def test_a_healthy_report_covers_every_gpu_although_it_lists_none() -> None:
    found = health("dcgm-health-healthy.json")
    assert found.present == ()
    assert found.covers["dcgm.health_memory"] == tuple(gpu(index) for index in range(MAX_GPUS))


def test_a_system_with_an_internal_error_is_not_covered() -> None:
    found = health("dcgm-health-failure.json")
    assert gpu(3) not in found.covers["dcgm.health_nvlink"]
    assert gpu(2) in found.covers["dcgm.health_nvlink"]


def test_a_split_message_is_joined() -> None:
    assert health("dcgm-health-failure.json").present[0].message == "A pending row remap was detected on GPU 0."


def test_a_warning_needs_no_action_and_the_catalog_judges_a_failure() -> None:
    failure, warning, _ = health("dcgm-health-failure.json").present
    assert (failure.severity, failure.action) == (None, None)
    assert (warning.severity, warning.action) == (Severity.WARNING, Action.NONE)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("Error: Health watches not enabled. Please enable watches.", "watches_not_enabled"),
        ('{"body": {"GPU": {}}, "header": ["NVLINK Error Counts"]}', "wrong_shape"),
        ("[1, 2]", "malformed_json"),
        ('{"body": {"Overall Health"', "malformed_json"),
    ],
)
def test_input_that_is_not_a_health_report_is_rejected(body: str, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode("dcgm-health", body.encode())
    assert rejected.value.reason == reason


def test_a_report_lists_each_test_with_its_outcome() -> None:
    results = read_report((SAMPLES / "dcgm-diag-v4.json").read_bytes())
    assert [(one.category, one.outcome, one.hardware) for one in results] == [
        ("Deployment", "fail", False),
        ("Hardware", "pass", True),
        ("Hardware", "fail", True),
        ("Hardware", "skip", True),
        ("Hardware", "warn", True),
    ]
    assert results[2].line == "memory on GPU 1: fail: The memory test failed on GPU 1."


def test_a_summary_does_not_count_an_error_twice() -> None:
    codes = [one.code for one in decoded("dcgm-diag", "dcgm-diag-v4.json") if isinstance(one, Fault)]
    assert codes.count("dcgm.persistence_mode") == 1


def test_a_summary_is_used_if_there_are_no_results() -> None:
    test = {"name": "memory", "test_summary": {"status": "Fail", "warnings": [{"warning": "bad", "error_id": 52}]}}
    body = {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [test]}]}}
    (result,) = read_report(json.dumps(body).encode())
    assert [complaint.code for complaint in result.errors] == ["dcgm.faulty_memory"]


def test_an_error_on_several_gpus_affects_only_the_gpu_it_names() -> None:
    faults = [one for one in decoded("dcgm-diag", "dcgm-diag-v1.json") if isinstance(one, Fault)]
    assert faults[0].component == gpu(2)


def test_a_device_has_its_serial_number_unless_it_is_a_placeholder() -> None:
    serials = {
        one.components[0].index: one.components[0].serial
        for one in read_report((SAMPLES / "dcgm-diag-v4.json").read_bytes())
    }
    assert (serials[0], serials[1]) == (None, "1650000000001")


@pytest.mark.parametrize(
    "body", ["", "no report", "{}", '{"DCGM Diagnostic": {"runtime_error": "no GPUs"}}', '{"DCGM Diagnostic": 3}']
)
def test_input_that_is_not_a_report_is_rejected(body: str) -> None:
    with pytest.raises(Rejected):
        read_report(body.encode())


def scrape(*lines: str) -> list[Snapshot | CounterSample]:
    return [
        one
        for one in registry.decode("dcgm-metrics", "\n".join(lines).encode())
        if isinstance(one, Snapshot | CounterSample)
    ]


def test_the_last_xid_is_a_counter_sample_because_it_has_no_time() -> None:
    snapshot, *samples = decoded("dcgm-metrics", "dcgm-metrics.prom")
    assert isinstance(snapshot, Snapshot)
    assert all(not fault.code.startswith("xid.") for fault in snapshot.present)
    values = {one.component.index: one.values for one in samples if isinstance(one, CounterSample)}
    assert values == {0: {"DCGM_FI_DEV_XID_ERRORS": 79}, 1: {"DCGM_FI_DEV_XID_ERRORS": 0}}


def test_a_gpu_in_mig_mode_is_one_gpu() -> None:
    _, *samples = decoded("dcgm-metrics", "dcgm-metrics.prom")
    assert [one.component.index for one in samples if isinstance(one, CounterSample)] == [0, 1]


def test_dcgms_blanks_are_not_values() -> None:
    snapshot = decoded("dcgm-metrics", "dcgm-metrics.prom")[0]
    assert isinstance(snapshot, Snapshot)
    assert [one.index for one in snapshot.covers["dcgm.row_remap_failure"]] == [0, 2]


def test_the_exporters_hostname_is_the_node() -> None:
    assert {one.node for one in decoded("dcgm-metrics", "dcgm-metrics.prom")} == {"ip-10-0-0-7"}


def test_two_scrapes_in_one_input_are_two_counter_samples() -> None:
    series = 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0a"} '
    assert [one.values for one in scrape(series + "0", series + "79") if isinstance(one, CounterSample)] == [
        {"DCGM_FI_DEV_XID_ERRORS": 0},
        {"DCGM_FI_DEV_XID_ERRORS": 79},
    ]


def test_a_renamed_field_is_the_field_of_its_earlier_name() -> None:
    labels = '{gpu="0",UUID="GPU-0a"} '
    earlier, later = (
        scrape(*(f"DCGM_FI_DEV_{name}{labels}{value}" for name, value in values.items()))
        for values in (
            {"XID_ERRORS": 79, "ROW_REMAP_FAILURE": 1, "RETIRED_PENDING": 0, "PCIE_REPLAY_COUNTER": 3},
            {"XID_ERROR": 79, "ROW_REMAP_FAILED": 1, "PAGE_RETIRED_PENDING": 0, "PCIE_REPLAY_TOTAL": 3},
        )
    )
    assert [one.covers for one in later if isinstance(one, Snapshot)] == [
        one.covers for one in earlier if isinstance(one, Snapshot)
    ]
    assert [fault.code for one in later if isinstance(one, Snapshot) for fault in one.present] == [
        "dcgm.row_remap_failure"
    ]
    assert later[1:] == earlier[1:]


def test_a_scrape_of_another_exporter_is_rejected() -> None:
    with pytest.raises(Rejected) as rejected:
        scrape("node_load1 0.5", "# HELP go_goroutines Number")
    assert rejected.value.reason == "no_framing"
