"""`kernel-log`: details of kernel messages beyond code, component and action."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Clear, Fault
from tests.decoders.captures import decoded

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)


def read(*lines: str, received_at: datetime | None = None) -> list[Fault | Clear]:
    body = "\n".join(lines).encode()
    found = registry.decode("kernel-log", body, Hints(received_at))
    return [one for one in found if isinstance(one, Fault | Clear)]


def only(*lines: str, received_at: datetime | None = None) -> Fault:
    (found,) = read(*lines, received_at=received_at)
    assert isinstance(found, Fault)
    return found


XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def test_an_xid_names_its_process_and_keeps_its_text() -> None:
    fault = only(XID)
    assert fault.message == "GPU has fallen off the bus."
    assert fault.evidence == XID
    assert fault.attributes == {"pid": "1234", "process": "python"}
    assert (fault.severity, fault.action) == (None, None)


def test_an_unknown_process_is_not_an_attribute() -> None:
    assert only("NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, gone").attributes == {}


@pytest.mark.parametrize("name", ["nvc:[driver]", "ray::WorkerDict", "VM Thread"])
def test_a_process_name_can_contain_any_character(name: str) -> None:
    fault = only(f"NVRM: Xid (PCI:0000:c1:00): 43, pid=7, name={name}, Ch 00000008")
    assert (fault.attributes["process"], fault.message) == (name, "Ch 00000008")


@pytest.mark.parametrize(
    ("prefix", "instant"),
    [
        ("[Tue Feb  3 04:05:06 2026] ", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("kern  :err   : 2026-02-03T04:05:06,502716+00:00 ", datetime(2026, 2, 3, 4, 5, 6, 502716, UTC)),
        ("2026-02-03T06:05:06.5+02:00 ip-10-0-0-7 kernel: ", datetime(2026, 2, 3, 4, 5, 6, 500000, UTC)),
        ("<3>1 2026-02-03T04:05:06Z ip-10-0-0-7 kernel - - - ", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("2026-02-03T04:05:06.123456789Z stderr F ", datetime(2026, 2, 3, 4, 5, 6, 123456, UTC)),
        ("Feb  3 04:05:06 ip-10-0-0-7 kernel: [  68.1] ", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("Dec 31 23:59:59 ip-10-0-0-7 kernel: ", datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("[ 8123.617543] ", None),
        ("<3>[ 8123.617543] ", None),
        ("3,1,812361754,-;", None),
        ("MESSAGE=kernel: [ 8123.6] ", None),
        ("kernel: kernel: ", None),
        ("", None),
    ],
)
def test_a_prefix_is_stripped_and_its_time_is_read(prefix: str, instant: datetime | None) -> None:
    fault = only(prefix + XID, received_at=NOON)
    assert fault.evidence == XID
    assert fault.observed_at == instant


def test_a_time_without_a_year_is_not_read_without_a_receipt_time() -> None:
    assert only("Feb  3 04:05:06 host kernel: " + XID).observed_at is None


def test_the_hostname_in_the_prefix_is_the_node() -> None:
    assert only("Feb  3 04:05:06 ip-10-0-0-7 kernel: " + XID).node == "ip-10-0-0-7"
    assert only("kernel: " + XID).node is None


def test_seconds_since_boot_become_the_attribute_uptime() -> None:
    assert only("[ 8123.617543] " + XID).attributes["uptime"] == "8123.617543"
    assert only("3,1,8123617543,-;" + XID).attributes["uptime"] == "8123.617543"


def test_a_repeated_message_counts_its_repetitions() -> None:
    assert only(f"Feb  3 04:05:06 h kernel: message repeated 9 times: [ {XID}]").count == 9


@pytest.mark.parametrize(
    "line",
    [
        "[    1.0] Memory cgroup out of memory: Killed process 4242 (NVRM: Xid (PCI:) total-vm:1024kB",
        "[    1.0] nvidia-uvm: reported NVRM: Xid (PCI:0000:3b:00): 31",
        "[    1.0] nvrm: xid (PCI:0000:3b:00): 79",
        "[    1.0] NVRM: Xid (invalid): some error",
        "[    1.0] NVRM: Xid : 32, pid=2280636",
        "[    1.0] NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "[    1.0] NVRM: fallen off the bus and is not responding to commands.",
        "Feb  3 04:05:06 host quoter[1]: NVRM: Xid (PCI:0000:66:00): 79, quoted",
        "[    1.0] nvidia-nvswitch0: SXid (PCI:0000:00:00.0): xyz, Fatal error",
        "[    1.0] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 11111, Data {0x50610002, 0x10100030}",
    ],
)
def test_a_similar_line_is_no_fault(line: str) -> None:
    assert read(line) == []


def test_a_message_written_by_a_user_is_info_and_needs_no_action() -> None:
    for line in (
        f"11,2,3,-;{XID}",
        f"user  :err   : {XID}",
        f"<11>{XID}",
        "11,2,3,-;NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
    ):
        fault = only(line)
        assert (fault.severity, fault.action) == (Severity.INFO, Action.NONE)
        assert fault.attributes["facility"] == "user"


@pytest.mark.parametrize("facility", range(1, 24))
def test_only_the_facility_of_the_kernel_proves_that_the_kernel_wrote_a_syslog_line(facility: int) -> None:
    fault = only(f"<{facility << 3 | 6}>{XID}")
    assert (fault.severity, fault.action) == (Severity.INFO, Action.NONE)
    assert fault.attributes["facility"] == "user"
    assert read(f"<{facility << 3 | 6}>Feb  3 04:05:06 gpu-1 quoter: {XID}") == []
    assert only(f"<6>{XID}").severity is None


@pytest.mark.parametrize("facility", [1, 3])
def test_a_kernel_record_of_the_journal_with_the_facility_of_a_program_is_info(facility: int) -> None:
    fault = only(json.dumps({"MESSAGE": XID, "_TRANSPORT": "kernel", "SYSLOG_FACILITY": str(facility)}))
    assert (fault.severity, fault.action) == (Severity.INFO, Action.NONE)


def test_networkd_reports_carriers_with_its_facility_and_no_messages_of_the_kernel() -> None:
    lost = "systemd-networkd[11]: ib6: Lost carrier"
    assert only(f"<30>Feb  3 04:05:06 gpu-1 {lost}").severity is None
    assert only(f"<14>Feb  3 04:05:06 gpu-1 {lost}").severity is Severity.INFO
    journal = {"SYSLOG_IDENTIFIER": "systemd-networkd", "_TRANSPORT": "journal"}
    for text in (XID, f"ib6: Lost carrier#012{XID}"):
        for line in (f"<30>systemd-networkd[11]: {text}", json.dumps(journal | {"MESSAGE": text})):
            certain = [one for one in read(line) if isinstance(one, Fault) and one.severity is None]
            assert [one for one in certain if one.code == "xid.79"] == []


def test_a_user_cannot_clear_a_recovery_action() -> None:
    line = "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x2 (OS Reboot) to 0x0 (None)"
    assert isinstance(read(line)[0], Clear)
    assert isinstance(read("11,2,3,-;" + line)[0], Fault)


def test_a_gpu_has_the_uuid_and_serial_number_that_the_driver_prints() -> None:
    fault = next(one for one in decoded("kernel-log", "kernel-printk.log") if isinstance(one, Fault))
    assert fault.component.uuid == "GPU-0a1b2c3d-1111-2222-3333-444455556666"
    assert fault.component.serial == "1654321098765"


def test_a_loss_and_its_xid_79_are_one_fault() -> None:
    lost = "NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus."
    assert len(read(f"[ 100.0] {XID}", f"[ 399.0] {lost}")) == 1
    assert len(read(f"[ 100.0] {XID}", f"[ 401.0] {lost}")) == 2
    assert len(read(f"[ 100.0] {XID}", f"[ 100.0] {lost.replace('c1', 'c2')}")) == 2


def test_a_loss_over_three_lines_is_one_fault_with_the_first_lines_time() -> None:
    fault = only(
        "[Tue Feb  3 04:05:06 2026] NVRM: The NVIDIA GPU 0000:b3:00.0",
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "               NVRM: fallen off the bus and is not responding to commands.",
    )
    assert fault.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert fault.evidence.count("NVRM:") == 3


def test_the_number_of_a_recovery_action_decides_and_its_text_does_not() -> None:
    line = "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to {}"
    asked = {
        text: only(line.format(text))
        for text in ("0x1 (PF FLR)", "0x2 (OS Reboot)", "0x4 (Drain and Reset)", "0x77 (New)")
    }
    assert asked["0x1 (PF FLR)"].action is Action.RESET_GPU
    assert asked["0x2 (OS Reboot)"].action is Action.REBOOT_NODE
    assert asked["0x4 (Drain and Reset)"].severity is Severity.ERROR
    assert load_catalog().classify(asked["0x77 (New)"]).action is Action.CONTACT_SUPPORT
    assert asked["0x1 (PF FLR)"].attributes["recovery_action"] == "0x1"


def test_a_consequence_names_its_cause_and_needs_no_action() -> None:
    fault = only("NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000001 caused by previous Xid 149")
    assert fault.attributes["caused_by"] == "xid.149"
    assert fault.severity is Severity.INFO


def test_unit_and_status_of_an_nvlink5_error_override_the_printed_severity() -> None:
    line = "NVRM: Xid (PCI:0000:04:00): 145, {} {} XC0 i0 Link 03 ({} {} 0x00000000)"
    judged = {
        key: load_catalog().classify(only(line.format(*key)))
        for key in (
            ("RLW_REMAP", "Nonfatal", "0x00000004", "0x00000040"),
            ("RLW_REMAP", "Fatal", "0x00000004", "0x00000100"),
            ("RLW_NEW", "Fatal", "0x00000077", "0x00000001"),
            ("RLW_NEW", "Nonfatal", "0x00000077", "0x00000001"),
        )
    }
    assert [fault.action for fault in judged.values()] == [Action.RESET_GPU, Action.NONE, Action.RESET_GPU, Action.NONE]
    attributes = judged["RLW_REMAP", "Fatal", "0x00000004", "0x00000100"].attributes
    assert attributes == {
        "unit": "RLW_REMAP", "severity": "Fatal", "xc": "0", "injected": "0", "link": "3",
        "intrinfo": "0x00000004", "errorstatus": "0x00000100", "words": "0x00000000", "driver_branch": "r575",
    }  # fmt: skip


NVLINK5 = "NVRM: Xid (PCI:0000:04:00): {}, {} Nonfatal XC0 i0 Link 03 ({} {} 0x00000000)"


@pytest.mark.parametrize(
    ("code", "unit", "info", "branch"),
    [
        (144, "SAW_MVB", "0x00000021", "before r575"),
        (144, "SAW_MVB", "0x00000001", "r575"),
        (149, "NETIR_LINK_EVT", "0x021425c6", "before r575"),
        (149, "NETIR_LINK_EVT", "0x02142591", "r575"),
        (146, "TLW_RX_PIPE1", "0x00000143", "before r575"),
        (146, "TLW_RX_PIPE1", "0x0000000b", "r575"),
        (150, "MSE_WATCHDOG", "0x00000000", None),
        (144, "SAW_MVB", "0x00000077", None),
    ],
)
def test_the_number_of_a_unit_identifies_the_driver_branch(code: int, unit: str, info: str, branch: str | None) -> None:
    assert only(NVLINK5.format(code, unit, info, "0x00000001")).attributes.get("driver_branch") == branch


@pytest.mark.parametrize("info", ["0x000000a2", "0x00000005"])
def test_a_unit_with_an_unknown_name_is_judged_by_its_number(info: str) -> None:
    fault = only(NVLINK5.format(145, "RLW_NEW", info, "0x00000002"))
    assert fault.attributes["decoded_unit"] == "RLW_RSPCOL"
    assert load_catalog().classify(fault).action is Action.RESET_GPU


@pytest.mark.parametrize(
    ("info", "bound"), [("0x000004c2", True), ("0x000000c2", False), ("0x00000086", True), ("0x00000406", False)]
)
def test_an_exception_bit_of_either_branch_keeps_the_printed_severity(info: str, bound: bool) -> None:
    line = NVLINK5.replace("Nonfatal", "Fatal").format(145, "RLW_RXPIPE", info, "0x00000001")
    judged = load_catalog().classify(only(line))
    assert ("exception" in judged.attributes, judged.action is Action.RESET_GPU) == (bound, bound)


def test_continuation_lines_belong_to_the_switch_error_before_them() -> None:
    faults = [one for one in decoded("kernel-log", "kernel-printk.log") if one.component.type == "nvswitch"]  # type: ignore[union-attr]  # kernel logs hold faults only
    assert isinstance(faults[0], Fault)
    assert faults[0].attributes == {
        "uptime": "8129.100100", "severity": "Fatal", "link": "12", "severity_level": "1",
        "engine_instance": "12", "sub_engine_instance": "0", "data": "0x10000000, 0x10000000, 0x00000000",
    }  # fmt: skip


def test_the_printed_severity_of_a_switch_error_overrides_the_catalog() -> None:
    mild = only(
        "nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress non-posted PRIV error (First)"
    )
    assert (mild.severity, mild.action) == (Severity.WARNING, Action.NONE)
    assert load_catalog().row("sxid.12028").severity is Severity.FATAL
    assert mild.message == "egress non-posted PRIV error"


@pytest.mark.parametrize("body", ["hello\nworld\n", "{}", "a,b,c;d", "NVRM", "<html>"])
def test_text_without_a_kernel_prefix_is_rejected(body: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode("kernel-log", body.encode())
    assert rejected.value.reason == "no_framing"


def test_a_line_of_200_kb_is_decoded() -> None:
    fault = only(f"[ 1.0] NVRM: Xid (PCI:0000:c1:00): 13, pid=1, name=x, {'ESR 0x50df30=0x107000e ' * 9000}")
    assert len(fault.evidence) <= 4096


STATUS = "NVRM: {}nvCheckOkFailedNoLog: Check failed: {} (0x0000000F) returned from rmStatus @ kernel_ce.c:106"
LOST, RESET = "GPU lost from the bus [NV_ERR_GPU_IS_LOST]", "Reset required [NV_ERR_RESET_REQUIRED]"


def test_a_lost_gpu_that_only_a_status_of_the_driver_reports_is_one_fatal_fault() -> None:
    lines = [f"[    {n}.0] {STATUS.format('GPU5 ' if n else '', LOST)}" for n in range(9)]
    (fault,) = read(*lines)
    assert (fault.code, fault.component.name, fault.count) == ("xid.79", "GPU5", 9)
    assert load_catalog().classify(fault).severity is Severity.FATAL


def test_an_xid_explains_the_status_names_of_the_same_boot_only() -> None:
    xid = "[    9.0] NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."
    status = STATUS.format("", LOST)
    assert [one.component.pci for one in read(f"[    8.0] {status}", xid)] == ["0000:c1:00"]
    other = f"Panic#1 Part1\n<4>[    8.0] {status}"
    assert [one.code for one in read(xid, other)] == ["xid.79", "xid.79"]


def test_a_status_name_after_a_crash_dump_is_of_another_boot_than_the_same_name_in_the_dump() -> None:
    status = STATUS.format("GPU5 ", LOST)
    dump = f"Panic#1 Part1\n<4>[    7.0] {status}\n<4>[    8.0] {status}\n==> dmesg <=="
    found = read(dump, f"[    9.0] {status}")
    assert [(one.attributes.get("boot"), one.count) for one in found] == [("previous", 2), (None, 1)]


@pytest.mark.parametrize(
    "text",
    [
        STATUS.format("", RESET),
        "NVRM: GPU0 nvAssertFailedNoLog: Assertion failed: (status == NV_ERR_GPU_IN_FULLCHIP_RESET) @ rs_client.c:844",
        "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:4b:00.  The GPU likely needs to be reset.",
    ],
)
def test_a_gpu_that_must_be_reset_is_an_error_unless_an_xid_says_it_already(text: str) -> None:
    (fault,) = map(load_catalog().classify, read(f"[    1.0] {text}"))
    assert (fault.code, fault.severity, fault.action) == ("host.gpu_reset_required", Severity.ERROR, Action.RESET_GPU)
    xid = "[    0.5] NVRM: Xid (PCI:0000:4b:00): 119, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
    assert [one.code for one in read(xid, f"[    1.0] {text}")] == ["xid.119"]


@pytest.mark.parametrize(
    "text", ["NVRM: the documentation of NV_ERR_GPU_IS_LOST", "python3: [NV_ERR_GPU_IS_LOST]", STATUS.format("", "OK")]
)
def test_a_quoted_status_name_is_no_fault(text: str) -> None:
    assert read(f"[    1.0] {text}") == []


@pytest.mark.parametrize(
    ("number", "details", "severity"),
    [
        (20034, "Data {0x50610002, 0x10100030}", Severity.FATAL),
        (20034, "Severity 1 Engine instance 60 Sub-engine instance 00", Severity.FATAL),
        (20034, "Severity 0 Engine instance 60 Sub-engine instance 00", Severity.WARNING),
        (12028, "Data {0x50610002, 0x10100030}", Severity.WARNING),
    ],
)
def test_a_line_of_an_sxid_whose_event_was_not_printed_is_a_fault(
    number: int, details: str, severity: Severity
) -> None:
    line = f"[    1.0] nvidia-nvswitch2: SXid (PCI:0000:07:00.0): {number}, {details}"
    (fault,) = map(load_catalog().classify, read(line, line))
    assert (fault.code, fault.severity, fault.attributes["event"]) == (f"sxid.{number}", severity, "missing")


@pytest.mark.parametrize("node", ["192.168.11.119", "gpu-7.example"])
def test_the_output_of_talosctl_dmesg_keeps_its_time_and_node(node: str) -> None:
    prefix = f"{node}: kern: warning: [2026-02-03T04:05:06.52643656Z]: "
    line = prefix + "NVRM: Xid (PCI:0000:0b:00): 79, GPU has fallen off the bus."
    assert registry.recognize(line.encode()) == "kernel-log"
    (fault,) = read(line)
    assert (fault.code, fault.node) == ("xid.79", node)
    assert fault.observed_at == datetime(2026, 2, 3, 4, 5, 6, 526436, UTC)
    (written,) = read(line.replace("kern: warning", "user: warning"))
    assert written.severity is Severity.INFO
