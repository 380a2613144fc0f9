"""Sources about devices: disks, PCI, management controllers, Neuron, the device plugin, and NVLinks in DCGM's words."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Clear, CounterSample, Fault, Snapshot, faults_of
from tests.decoders.captures import faults_and_clears

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)


def read(source: str, body: str) -> list[Fault | Clear]:
    assert registry.recognize(body.encode()) == source
    return list(faults_and_clears(registry.decode(source, body.encode(), Hints(NOON))))


def codes(source: str, body: str) -> list[tuple[str, str | None]]:
    return [(one.code, one.component.name) for one in read(source, body)]


def covered(source: str, body: str) -> set[str]:
    (snapshot,) = registry.decode(source, body.encode())
    assert isinstance(snapshot, Snapshot)
    return {f"{code} {one.name or one.index or one.pci}" for code, found in snapshot.covers.items() for one in found}


NVME = """Smart Log for NVME device:nvme1n1 namespace-id:ffffffff
critical_warning                        : {warning}
temperature                             : 38 C
available_spare                         : {spare}%
available_spare_threshold               : {limit}%
percentage_used                         : {used}%
media_errors                            : 0
"""


@pytest.mark.parametrize(
    ("warning", "spare", "limit", "used", "expected"),
    [
        ("0", 100, 10, 3, []),
        ("0", 0, 0, 0, []),
        ("0x9", 3, 10, 27, ["host.disk_failing"]),
        ("0", 9, 10, 27, ["host.disk_failing"]),
        ("0x02", 100, 10, 3, ["host.disk_worn"]),
        ("0", 90, 10, 104, ["host.disk_worn"]),
        ("0x6", 90, 10, 101, ["host.disk_failing", "host.disk_worn"]),
    ],
)
def test_the_health_log_of_an_nvme_disk_decides(
    warning: str, spare: int, limit: int, used: int, expected: list[str]
) -> None:
    body = NVME.format(warning=warning, spare=spare, limit=limit, used=used)
    assert codes("disk-health", body) == [(code, "nvme1n1") for code in expected]
    log = {"critical_warning": int(warning, 0), "avail_spare": spare, "spare_thresh": limit, "percent_used": used}
    assert [code for code, _ in codes("disk-health", json.dumps(log))] == expected


def test_each_of_several_disks_is_judged() -> None:
    body = NVME.format(warning="0", spare=100, limit=10, used=3) + NVME.replace("nvme1n1", "nvme2n1").format(
        warning="0x4", spare=100, limit=10, used=3
    )
    assert codes("disk-health", body) == [("host.disk_failing", "nvme2n1")]
    assert covered("disk-health", body) == {
        f"host.disk_{code} {name}" for code in ("failing", "worn") for name in ("nvme1n1", "nvme2n1")
    }


SATA = "smartctl 7.2 2020-12-30 r5155\n=== START OF READ SMART DATA SECTION ===\n"
SATA += "SMART overall-health self-assessment test result: {}\n"


def test_smartctls_verdict_is_read_from_text_and_json() -> None:
    assert [code for code, _ in codes("disk-health", SATA.format("FAILED!"))] == ["host.disk_failing"]
    assert codes("disk-health", SATA.format("PASSED")) == []
    document = {"smartctl": {}, "device": {"name": "/dev/sdb"}, "smart_status": {"passed": False}}
    assert codes("disk-health", json.dumps(document)) == [("host.disk_failing", "sdb")]


@pytest.mark.parametrize("verdicts", [("FAILED!", "PASSED"), ("PASSED", "FAILED!")])
def test_a_healthy_disk_without_a_name_does_not_hide_a_failing_one(verdicts: tuple[str, str]) -> None:
    body = "".join(map(SATA.format, verdicts))
    assert codes("disk-health", body) == [("host.disk_failing", None)]


def test_a_disk_without_a_health_log_is_not_healthy_but_unknown() -> None:
    body = json.dumps({"smartctl": {"exit_status": 4}, "device": {"name": "/dev/nvme7"}})
    assert (codes("disk-health", body), covered("disk-health", body)) == ([], set())


LSPCI = """19:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev {revision})
\t\tLnkSta:\tSpeed {link}
1a:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)
00:0c.0 PCI bridge: Intel Corporation Device 1bbc (rev 11)
\t\tLnkSta:\tSpeed 5GT/s (downgraded), Width x1 (downgraded)
"""


@pytest.mark.parametrize(
    ("revision", "link", "expected"),
    [
        ("a1", "32GT/s (ok), Width x16 (ok)", []),
        ("a1", "2.5GT/s (downgraded), Width x16 (ok)", []),
        ("a1", "16GT/s (downgraded), Width x8 (downgraded)", ["host.pcie_width_reduced"]),
        ("ff", "unknown", ["host.pci_device_unreadable"]),
    ],
)
def test_a_device_that_does_not_respond_or_lost_lanes_is_a_fault(revision: str, link: str, expected: list[str]) -> None:
    body = LSPCI.format(revision=revision, link=link)
    assert [(one.code, one.component.pci) for one in read("pci-devices", body)] == [
        (code, "0000:19:00") for code in expected
    ]
    assert {"host.pci_device_unreadable 0000:19:00", "host.pci_device_unreadable 0000:1a:00"} <= covered(
        "pci-devices", body
    )


SEL = "   {} | 02/03/2026 | 04:05:06 | {} | {} | {}\n"


@pytest.mark.parametrize(
    ("sensor", "event", "expected"),
    [
        ("Memory #0x53", "Uncorrectable ECC", "host.memory_uncorrected"),
        ("Memory #0x53", "Correctable ECC", "host.memory_corrected"),
        ("Critical Interrupt #0x72", "Bus Fatal Error", "host.pcie_fatal"),
        ("Processor CPU0", "IERR", "host.machine_check"),
        ("Power Supply #0xc8", "Failure detected", "host.power_failed"),
        ("Fan FAN3", "Lower Non-recoverable going low", "host.cooling_failed"),
        ("Temperature CPU1", "Upper Critical going high", "host.cooling_failed"),
        ("Drive Slot Bay4", "Drive Fault", "host.disk_failing"),
        ("Drive Slot Bay4", "Predictive Failure", "host.disk_failing"),
        ("Voltage P12V", "Lower Critical going low", "host.power_failed"),
        ("Critical Interrupt #0x72", "PCI SERR", "host.pcie_fatal"),
        ("Temperature Inlet", "Upper Non-critical going high", None),
        ("Power Supply PSU1", "Presence detected", None),
        ("OS Boot #0x22", "boot completed - device not specified", None),
        ("Critical Interrupt #0x72", "Bus Correctable Error", None),
        ("Event Logging Disabled #0x07", "Log area reset/cleared", None),
    ],
)
def test_an_event_of_a_management_controller_is_judged_by_its_text(
    sensor: str, event: str, expected: str | None
) -> None:
    found = read("bmc-events", SEL.format("1a", sensor, event, "Asserted"))
    assert [one.code for one in found] == ([expected] if expected else [])
    assert all(one.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC) for one in found)
    entry = {"@odata.type": "#LogEntry.v1_4_0.LogEntry", "Severity": "Critical", "Message": f"{sensor} {event}"}
    entry["Created"] = "2026-02-03T04:05:06Z"
    (fault,) = read("bmc-events", json.dumps({"Members": [entry]}))
    assert fault.code == (expected or "host.bmc_critical")
    assert read("bmc-events", json.dumps(entry | {"Severity": "OK"})) == []


def test_an_event_that_ended_is_a_clear() -> None:
    (ended,) = read("bmc-events", SEL.format("2", "Power Supply #0xc8", "Failure detected", "Deasserted"))
    assert isinstance(ended, Clear)


def test_an_event_that_may_be_years_old_causes_no_repair() -> None:
    for sensor, event in (("Memory #1", "Uncorrectable ECC"), ("x", "Bus Fatal Error"), ("CPU0", "IERR")):
        (fault,) = read("bmc-events", SEL.format("1", sensor, event, "Asserted"))
        assert isinstance(fault, Fault)
        assert load_catalog().classify(fault).action is Action.RUN_DIAGNOSTICS


def neuron(**counters: int) -> str:
    healthy = {"mem_ecc_corrected": 4, "mem_ecc_uncorrected": 0, "sram_ecc_uncorrected": 0}
    devices = [{"neuron_device_index": 0, **healthy}, {"neuron_device_index": 1, **healthy, **counters}]
    return json.dumps({"system_data": {"neuron_hw_counters": {"neuron_devices": devices, "error": ""}}}) + "\n"


def test_an_uncorrected_error_of_a_neuron_device_is_a_fault_and_a_corrected_one_is_not() -> None:
    assert codes("neuron-monitor", neuron()) == []
    (fault,) = read("neuron-monitor", neuron() + neuron(sram_ecc_uncorrected=2))
    assert (fault.code, fault.message) == ("agent.neuron_memory_error", "Neuron device 1: sram_ecc_uncorrected 2")


def test_the_errors_of_neuron_devices_without_a_number_are_reported() -> None:
    report = json.loads(neuron(sram_ecc_uncorrected=2))
    devices = report["system_data"]["neuron_hw_counters"]["neuron_devices"]
    for device in devices:
        del device["neuron_device_index"]
    devices.reverse()
    (fault,) = read("neuron-monitor", json.dumps(report))
    assert fault.message == "Neuron device None: sram_ecc_uncorrected 2"


def test_a_neuron_report_that_lacks_a_counter_ends_no_fault_and_one_without_any_is_rejected() -> None:
    renamed = neuron().replace("sram_ecc_uncorrected", "sram_ecc_new_name")
    (whole,) = registry.decode("neuron-monitor", neuron().encode())
    (partial,) = registry.decode("neuron-monitor", renamed.encode())
    assert isinstance(whole, Snapshot)
    assert isinstance(partial, Snapshot)
    assert (set(whole.covers), set(partial.covers)) == ({"agent.neuron_memory_error"}, set())
    with pytest.raises(Rejected, match="wrong_shape"):
        registry.decode("neuron-monitor", renamed.replace("mem_ecc_uncorrected", "mem_ecc_new_name").encode())


UUID = "GPU-0a1b2c3d-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("head", "at"),
    [
        ("2026/02/03 04:05:06 ", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("I0203 04:05:06.000001       1 health.go:159] ", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("", None),
    ],
)
def test_an_xid_that_the_device_plugin_saw_is_a_fault_of_its_gpu(head: str, at: datetime | None) -> None:
    body = f"{head}XidCriticalError: Xid=79 on Device={UUID}; marking device as unhealthy.\n"
    body += f"{head}'nvidia.com/gpu' device marked unhealthy: {UUID}\n"
    assert [(one.code, one.component.uuid, one.observed_at) for one in read("device-plugin-log", body)] == [
        ("xid.79", UUID, at)
    ]


def test_a_device_that_was_marked_without_an_xid_is_a_fault() -> None:
    assert codes("device-plugin-log", f"'nvidia.com/gpu' device marked unhealthy: {UUID}\n") == [
        ("agent.gpu_unhealthy", None)
    ]
    assert (
        codes("device-plugin-log", "I0203 04:05:06.0 1 server.go:3] Registered device plugin for 'nvidia.com/gpu'\n")
        == []
    )


STATUS = "GPUs:\n    gpuId 0:\n        {}\n    gpuId 1:\n        {}\nNvSwitches:\n    No NvSwitches found.\n"


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (("U U U X", "U U U _"), []),
        (("_ _ _ _", "_ _ _ _"), []),
        (("U U D D", "U U U U"), [(0, "2, 3", None)]),
        (("D D D D", "U U U U"), [(0, "0, 1, 2, 3", None)]),
        (("D D", "D D"), [(0, "0, 1", Severity.WARNING), (1, "0, 1", Severity.WARNING)]),
    ],
)
def test_a_link_that_is_down_is_a_fault_of_its_gpu(links: tuple[str, str], expected: list[object]) -> None:
    found = read("dcgm-nvlink", STATUS.format(*links))
    assert [(one.component.index, one.attributes["links"], one.severity) for one in found] == expected
    assert {one.code for one in found} <= {"dcgm.nvlink_down"}


def test_the_errors_of_a_gpus_links_are_one_counter_sample_from_json_and_from_a_table() -> None:
    counts = {"CRC Data Error": {"value": "12"}, "Replay Error": {"value": "0"}, "New Error": {"value": "1"}}
    document = {"header": ["NVLINK Error Counts", "GPU 3"], "body": {f"Link {n}": {"children": counts} for n in (0, 1)}}
    cells = [row for n in (0, 1) for row in ((f"Link {n}", ""), ("-> CRC Data Error", "12"), ("-> Replay Error", "0"))]
    rows = "".join(f"| {name:<28}| {value:<47}|\n" for name, value in cells)  # as wide as dcgmi prints them
    table = f"| {'NVLINK Error Counts':<77}|\n| {'GPU 3':<77}|\n+{'=' * 29}+{'=' * 48}+\n{rows}"
    for body in (json.dumps(document), table):
        (sample,) = registry.decode("dcgm-nvlink", body.encode())
        assert isinstance(sample, CounterSample)
        assert (sample.component.index, dict(sample.values)) == (
            3,
            {"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": 24, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 0},
        )
        assert registry.recognize(body.encode()) == "dcgm-nvlink"


def test_the_states_and_the_errors_of_links_in_one_text_are_both_read() -> None:
    states = STATUS.format("U U U D", "U U U U")
    body_of_gpu = {"Link 0": {"children": {"Replay Error": {"value": "4"}}}}
    document = {"header": ["NVLINK Error Counts", "GPU 1"], "body": body_of_gpu}
    table = "| NVLINK Error Counts |\n| GPU 1 |\n| Link 0 | |\n| -> Replay Error | 4 |\n"
    for errors in (table, f"{json.dumps(document)}\n"):
        for body in (states + errors, errors + states):
            snapshot, sample = registry.decode("dcgm-nvlink", body.encode())
            assert isinstance(snapshot, Snapshot)
            assert isinstance(sample, CounterSample)
            assert [(one.code, one.component.index) for one in snapshot.present] == [("dcgm.nvlink_down", 0)]
            assert (sample.component.index, dict(sample.values)) == (
                1,
                {"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 4},
            )


def redfish(message: str, severity: str, origin: str = "") -> str:
    links = {"OriginOfCondition": {"@odata.id": origin}} if origin else {}
    entry = {"@odata.type": "#LogEntry.v1_15_0.LogEntry", "Severity": severity, "Message": message, "Links": links}
    return json.dumps({"Members": [entry | {"Created": "2026-02-03T04:05:06+00:00"}]})


def test_an_xid_that_the_baseboard_controller_reports_is_a_fault_of_its_gpu() -> None:
    text = "The resource property Driver Event Message has detected errors of type 'XID 94, Contained memory error'."
    for severity, expected in (("Critical", ("error", "run_diagnostics")), ("Warning", ("warning", "none"))):
        (fault,) = read("bmc-events", redfish(text, severity, "/redfish/v1/Systems/HGX_0/Processors/GPU_SXM_3"))
        assert isinstance(fault, Fault)
        assert (fault.code, fault.component.name) == ("xid.94", "GPU_SXM_3")
        assert (fault.severity, fault.action) == expected


def test_a_warning_of_a_controller_is_reported_also_if_its_kind_is_not_known() -> None:
    text = "The resource property PCIe Link Speed has detected errors of type 'PCIe link speed degraded'."
    assert [one.code for one in read("bmc-events", redfish(text, "Warning"))] == ["host.bmc_warning"]
    assert read("bmc-events", redfish("The health of resource GPU_SXM_2 has changed to OK.", "OK")) == []


def test_a_journal_of_the_kernel_with_a_line_of_the_plugin_is_a_kernel_log() -> None:
    shared = {"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel"}
    plugin = {"_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "nvidia-device-plugin", "MESSAGE": "GPU unhealthy"}
    fault = shared | {"MESSAGE": "NVRM: Xid (PCI:0000:75:00): 79, GPU has fallen off the bus."}
    body = "\n".join(map(json.dumps, (shared | {"MESSAGE": "eth0: up"}, plugin, fault)))
    assert registry.recognize(body.encode()) == "kernel-log"
    assert [one.code for one in read("kernel-log", body)] == ["xid.79"]


@pytest.mark.parametrize(
    ("day", "clock", "hour"),
    [
        ("02/03/2026", "04:05:06", 4),
        ("02/03/26", "04:05:06 UTC", 4),
        ("02/03/26", "04:05:06 PM UTC", 16),
        ("02/03/2026", "12:05:06 AM", 0),
    ],
)
def test_an_event_is_read_in_each_form_of_its_date(day: str, clock: str, hour: int) -> None:
    body = f" 3 | {day} | {clock} | Memory DIMM_A1 | Uncorrectable ECC | Asserted\n".encode()
    assert registry.recognize(body) == "bmc-events"
    (fault,) = registry.decode("bmc-events", body)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.observed_at) == (
        "host.memory_uncorrected",
        datetime(2026, 2, 3, hour, 5, 6, tzinfo=UTC),
    )


@pytest.mark.parametrize(("severity", "codes"), [("Critical", ["host.memory_uncorrected"]), ("OK", [])])
def test_each_event_that_redfish_pushed_is_read(severity: str, codes: list[str]) -> None:
    event = {
        "Severity": severity,
        "Message": "Memory uncorrectable ECC error",
        "EventTimestamp": "2026-02-03T04:05:06Z",
    }
    body = json.dumps({"@odata.type": "#Event.v1_7_0.Event", "Events": [event]}).encode()
    assert registry.recognize(body) == "bmc-events"
    assert [one.code for one in registry.decode("bmc-events", body) if isinstance(one, Fault)] == codes


def test_a_health_log_of_smartctl_without_the_part_about_smartctl_is_read() -> None:
    log = {"critical_warning": 0, "available_spare": 3, "available_spare_threshold": 10, "percentage_used": 1}
    body = json.dumps({"device": {"name": "/dev/nvme1n1"}, "nvme_smart_health_information_log": log}).encode()
    assert registry.recognize(body) == "disk-health"
    assert [fault.code for one in registry.decode("disk-health", body) for fault in faults_of(one)] == [
        "host.disk_failing"
    ]
