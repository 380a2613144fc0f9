"""`fabric-manager-log`: every framing in which the fabric manager and systemd report."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.decide.normalize.compare import compare
from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import CounterSample, Fault
from tests.decoders.captures import decoded

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
ERROR = "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33"
TOPOLOGY = "detected number of NVSwitches don't match with any supported system topology, aborting fabric manager"
MULTICAST = "failed to find the GPU handle 123 in the multicast team request setup 456."
VERSION = "fabric manager NVIDIA GPU driver interface version 595.71.05 don't match with driver version 590.48.01."
NOTHING = "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do "
NOTHING += "[NV_WARN_NOTHING_TO_DO]"
SYSLOG = "Feb  3 04:05:06 gpu-1 nv-fabricmanager[5183]: {}"


def journal(text: str, program: str = "nv-fabricmanager") -> str:
    return json.dumps({"MESSAGE": text, "SYSLOG_IDENTIFIER": program, "_TRANSPORT": "syslog", "_HOSTNAME": "gpu-1"})


def read(*lines: str) -> list[Fault]:
    body = "\n".join(lines).encode()
    return [one for one in registry.decode("fabric-manager-log", body, Hints(NOON)) if isinstance(one, Fault)]


@pytest.mark.parametrize(
    "line",
    [
        f"[Feb 03 2026 04:05:06] [ERROR] [tid 841] {ERROR}",
        f"[Feb 03 2026 04:05:06] [ERROR] {ERROR}",
        f"[2026-02-03 04:05:06] [ERROR] [tid 841] {ERROR}",
        SYSLOG.format(ERROR),
        SYSLOG.format(f"[Feb 03 2026 04:05:06] [ERROR] [tid 841] {ERROR}"),
        f"2026-02-03T04:05:06+0000 gpu-1 nv-fabricmanager[5183]: {ERROR}",
        f"2\u6708 03 04:05:06 gpu-1 nv-fabricmanager[5183]: {ERROR}",
        journal(ERROR),
        json.dumps({"log": f"[Feb 03 2026 04:05:06] [ERROR] [tid 841] {ERROR}\n"}),
        ERROR,
        ERROR.replace("fid", "NodeId"),
    ],
)
def test_a_switch_error_is_read_in_every_framing(line: str) -> None:
    (fault,) = read(line)
    assert (fault.code, fault.severity, fault.component.pci) == ("sxid.20034", Severity.FATAL, "0000:86:00")
    assert (fault.attributes["fid"], fault.attributes["port"]) == ("0", "33")
    assert fault.observed_at in {None, datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)}
    assert registry.recognize(line.encode()) == "fabric-manager-log"


def test_the_node_is_read_from_syslog_and_the_journal() -> None:
    assert [read(line)[0].node for line in (SYSLOG.format(ERROR), journal(ERROR))] == ["gpu-1", "gpu-1"]


def test_a_switch_error_that_was_cut_off_is_read() -> None:
    assert read("[Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0")[
        0
    ].code == ("sxid.12028")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (TOPOLOGY, "host.fabric_manager_failed"),
        (VERSION, "host.fabric_manager_failed"),
        (MULTICAST, "host.fabric_manager_error"),
        (NOTHING, "host.fabric_manager_error"),
        ("Connected to 1 node.", None),
        ("Successfully configured all the available NVSwitches to route GPU NVLink traffic.", None),
    ],
)
def test_the_text_decides_what_a_message_means(text: str, code: str | None) -> None:
    for line in (SYSLOG.format(text), journal(text)):
        assert [one.code for one in read(line)] == ([code] if code else [])


def test_a_failed_start_is_one_fault_and_none_where_there_are_no_switches() -> None:
    lines = [
        "gpu-1 systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAILURE",
        "Feb  3 04:05:06 gpu-1 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.",
        "Feb  3 04:05:06 gpu-1 systemd[1]: Failed to start NVIDIA fabric manager service.",
    ]
    assert [(one.code, one.count) for one in read(*lines)] == [("host.fabric_manager_failed", 1)]
    without = read(SYSLOG.format(NOTHING), *lines)
    assert {(one.code, one.severity, one.action) for one in without} == {("host.fabric_manager_error", "info", "none")}


@pytest.mark.parametrize(
    ("other", "is_failure"),
    [
        ([SYSLOG.format("Fabric Manager version 550.54.15 is running"), SYSLOG.format(TOPOLOGY)], True),
        ([SYSLOG.format(TOPOLOGY).replace("04:05:06", "09:00:00")], True),
        ([SYSLOG.format(TOPOLOGY).replace("gpu-1", "gpu-2")], True),
        ([f"[Feb 04 2026 04:05:06] [ERROR] [tid 1] {TOPOLOGY}"], True),
        ([SYSLOG.format(TOPOLOGY)], False),
    ],
)
def test_a_start_without_switches_says_nothing_about_another_start(other: list[str], is_failure: bool) -> None:
    for lines in ([SYSLOG.format(NOTHING), *other], [*other, SYSLOG.format(f"Fabric Manager version 1: {NOTHING}")]):
        codes = {one.code for one in read(*lines)}
        assert ("host.fabric_manager_failed" in codes) is (is_failure or lines[0] == other[0])


def test_a_start_after_a_failed_one_is_another_start() -> None:
    failed = "Feb  3 04:05:06 gpu-1 systemd[1]: Failed to start NVIDIA fabric manager service."
    found = read(SYSLOG.format(NOTHING), failed, SYSLOG.format(TOPOLOGY))
    assert [one.code for one in found if one.severity is None] == ["host.fabric_manager_failed"]


@pytest.mark.parametrize(
    ("active", "enabled", "codes"),
    [
        ("failed (Result: exit-code) since Tue 2026-02-03 04:05:06 UTC", "enabled", ["host.fabric_manager_failed"]),
        ("inactive (dead)", "enabled", ["host.fabric_manager_failed"]),
        ("inactive (dead)", "disabled", []),
        ("active (running) since Tue 2026-02-03 04:05:06 UTC; 1h ago", "enabled", []),
    ],
)
def test_systemctl_status_shows_whether_the_service_runs(active: str, enabled: str, codes: list[str]) -> None:
    status = (
        "\u25cf nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
        f"     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; {enabled}; vendor preset: enabled)\n"
        f"     Active: {active}\n"
        "Feb 03 04:05:06 gpu-1 nv-fabricmanager[1]: Connected to 1 node.\n"
    )
    assert [one.code for one in read(status)] == codes
    assert registry.recognize(status.encode()) == "fabric-manager-log"


def test_a_system_log_with_lines_of_the_kernel_is_a_kernel_log() -> None:
    body = f"{SYSLOG.format('Connected to 1 node.')}\nFeb  3 04:05:06 gpu-1 kernel: NVRM: loading\n"
    assert registry.recognize(body.encode()) == "kernel-log"


UNIT = "nvidia-persistenced.service"
STATUS = f"""\u25cf {UNIT} - NVIDIA Persistence Daemon
     Loaded: loaded (/lib/systemd/system/{UNIT}; {{}}; preset: enabled)
     Active: {{}}
"""
DEVICES = "Failed to query NVIDIA devices. Please ensure that the NVIDIA device files (/dev/nvidia*) exist"
DAEMON = "Feb  3 04:05:06 gpu-1 {}"


@pytest.mark.parametrize(
    "line",
    [
        DAEMON.format(f"nvidia-persistenced[813]: {DEVICES}"),
        DAEMON.format(f"nvidia-persistenced: {DEVICES}"),
        DAEMON.format(f"systemd[1]: {UNIT}: Failed with result 'exit-code'."),
        DAEMON.format(f"systemd[1]: {UNIT}: Main process exited, code=exited, status=1/FAILURE"),
        DAEMON.format("systemd[1]: Failed to start NVIDIA Persistence Daemon."),
        DAEMON.format(f"systemd[1]: Failed to start {UNIT} - NVIDIA Persistence Daemon."),
        journal(DEVICES, "nvidia-persistenced"),
        STATUS.format("enabled", "failed (Result: exit-code) since Tue 2026-02-03 04:05:06 UTC; 5s ago"),
        STATUS.format("enabled", "inactive (dead)"),
        STATUS.format("static", "failed (Result: exit-code) since Tue 2026-02-03 04:05:06 UTC; 5s ago"),
    ],
)
def test_a_persistence_daemon_that_does_not_run_is_a_warning_without_a_repair(line: str) -> None:
    (fault,) = read(line)
    classified = load_catalog().classify(fault)
    assert (fault.code, fault.component.type.value) == ("host.persistence_daemon_failed", "node")
    assert (classified.severity, classified.action) == (Severity.WARNING, Action.NONE)
    assert registry.recognize(line.encode()) == "fabric-manager-log"


def test_the_lines_of_one_failed_start_of_the_persistence_daemon_are_one_fault() -> None:
    start = (f"{UNIT}: Main process exited, code=exited, status=1/FAILURE", f"{UNIT}: Failed with result 'exit-code'.")
    faults = read(*(DAEMON.format(f"systemd[1]: {line}") for line in start))
    assert [(one.code, one.count) for one in faults] == [("host.persistence_daemon_failed", 1)]


@pytest.mark.parametrize(
    "line",
    [
        DAEMON.format("nvidia-persistenced[813]: Started (813)"),
        DAEMON.format("nvidia-persistenced[813]: device 0000:c1:00.0 - registered"),
        DAEMON.format("nvidia-persistenced[813]: device 0000:c1:00.0 - persistence mode enabled."),
        DAEMON.format("nvidia-persistenced[813]: Verbose syslog connection opened"),
        DAEMON.format("nvidia-persistenced[813]: Received signal 15"),
        DAEMON.format(f"systemd[1]: {UNIT}: Deactivated successfully."),
        DAEMON.format("systemd[1]: Started NVIDIA Persistence Daemon."),
        STATUS.format("enabled", "active (running) since Tue 2026-02-03 04:05:06 UTC; 2h ago"),
        STATUS.format("static", "active (running) since Tue 2026-02-03 04:05:06 UTC; 2h ago"),
        STATUS.format("static", "inactive (dead)"),
    ],
)
def test_a_persistence_daemon_that_runs_or_was_not_needed_is_no_fault(line: str) -> None:
    assert read(DAEMON.format("nvidia-persistenced[813]: Started (813)"), *line.splitlines()) == []


def test_the_status_of_a_service_without_switches_is_information_like_the_lines_below_it() -> None:
    head = ("● nvidia-fabricmanager.service - NVIDIA fabric manager service", "   Active: failed (Result: exit-code)")
    for line, expected in ((NOTHING, (Severity.INFO, Action.NONE)), (TOPOLOGY, (None, None))):
        found = read(*head, SYSLOG.format(line))
        assert [(one.severity, one.action) for one in found] == [expected] * 2


@pytest.mark.parametrize("prefix", ["", "Feb  3 04:05:06 n-7 nv-fabricmanager[192]: "])
def test_two_records_on_a_line_are_both_read(prefix: str) -> None:
    error = "[Feb 03 2026 04:05:{:02}] [ERROR] [tid 1] detected NVSwitch fatal error {} on fid 0"
    line = f"{prefix}{error.format(6, 20034)} {error.format(7, 12028)}"
    first, second = registry.decode("fabric-manager-log", line.encode())
    assert isinstance(first, Fault)
    assert isinstance(second, Fault)
    assert [first.code, second.code] == ["sxid.20034", "sxid.12028"]
    assert (first.node, first.attributes.get("transport")) == (second.node, second.attributes.get("transport"))
    assert first.message == "detected NVSwitch fatal error 20034 on fid 0"


def faults(source: str, name: str) -> list[Fault]:
    return [one for one in decoded(source, name) if isinstance(one, Fault)]


def test_a_violation_has_its_own_time_and_value_and_no_gpu() -> None:
    found = faults("dcgm-policy", "dcgm-policy.txt")
    assert [one.code for one in found][-1] == "xid.79"
    assert found[0].attributes == {"dbe_error_count": "2"}
    assert found[1].observed_at == datetime(2026, 2, 3, 4, 6, 6, tzinfo=UTC)
    assert found[2].attributes == {"counter": "CRCErrorCount", "nvlink_counter_value": "104"}
    assert {one.component.index for one in found} == {None}


def test_a_start_message_without_violations_has_no_faults() -> None:
    assert registry.decode("dcgm-policy", b"Listening for violations.\n") == ()


def test_the_printed_severity_of_a_switch_error_decides() -> None:
    fatal, mild, *_ = faults("fabric-manager-log", "fabric-manager.log")
    assert (fatal.code, fatal.severity, fatal.attributes["port"]) == ("sxid.20034", Severity.FATAL, "30")
    assert (mild.severity, mild.action) == (Severity.WARNING, Action.NONE)
    assert fatal.observed_at == datetime(2026, 2, 3, 4, 5, 7, tzinfo=UTC)


def test_a_repeated_error_is_counted() -> None:
    assert [one.count for one in faults("fabric-manager-log", "fabric-manager.log")] == [1, 1, 1, 2]


@pytest.mark.parametrize("source", ["dcgm-policy", "fabric-manager-log"])
def test_other_text_is_rejected(source: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode(source, b"[INFO] all is well\n")
    assert rejected.value.reason == "no_framing"


def scrape(*values: int) -> list[CounterSample]:
    line = 'DCGM_EXP_XID_ERRORS_COUNT{{gpu="0",UUID="GPU-0a",xid="31",window_size_in_ms="300000"}} {}\n'
    body = "".join(line.format(value) for value in values).encode()
    return [one for one in registry.decode("dcgm-metrics", body) if isinstance(one, CounterSample)]


def test_a_higher_xid_count_in_the_window_is_a_fault_and_a_lower_count_is_none() -> None:
    first, second, third = scrape(1, 3, 2)
    assert [(fault.code, fault.attributes["value"]) for fault in compare(first, second)] == [("xid.31", "3")]
    assert compare(second, third) == ()


def test_a_mig_instance_without_an_xid_does_not_hide_the_gpus_xid() -> None:
    line = 'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-0a",GPU_I_ID="{}"}} {}\n'
    (sample,) = registry.decode("dcgm-metrics", (line.format(3, 79) + line.format(5, 0)).encode())
    assert isinstance(sample, CounterSample)
    assert sample.values == {"DCGM_FI_DEV_XID_ERRORS": 79}
