"""`kernel-log`: messages about the host outside the GPUs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Clear, Fault
from tests.decoders.captures import SAMPLES

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)


def read(*lines: str) -> list[Fault | Clear]:
    found = registry.decode("kernel-log", "\n".join(lines).encode(), Hints(NOON))
    return [one for one in found if isinstance(one, Fault | Clear)]


def only(*lines: str) -> Fault:
    (found,) = read(*lines)
    assert isinstance(found, Fault)
    return found


@pytest.mark.parametrize("driver", ["ena 0000:00:05.0 eth0", "ena 0000:00:05.0", "infiniband mlx5_0"])
@pytest.mark.parametrize("says", ["Wait for completion (polling) timeout", "Admin queue is closed"])
def test_the_same_text_of_another_driver_is_no_efa_fault(driver: str, says: str) -> None:
    assert read(f"[    1.0] {driver}: {says}") == []
    assert only(f"[    1.0] efa 0000:00:1b.0: {says}").code == "net.efa_error"


def test_a_refused_command_is_info_and_a_dead_queue_is_fatal() -> None:
    refused = only("[ 1.0] infiniband rdmap0s6: Failed to submit command REG_MR (opcode 9) err -12")
    dead = only("[ 1.0] infiniband rdmap0s6: Admin queue is closed")
    judged = [load_catalog().classify(one).severity for one in (refused, dead)]
    assert judged == [Severity.INFO, Severity.FATAL]
    assert refused.attributes["command"] == "REG_MR"


PCIE = "pcieport 0000:40:01.1: PCIe Bus Error: severity={}, type=Data Link Layer, (Transmitter ID)"


def test_corrected_pcie_errors_add_up_and_only_many_are_a_warning() -> None:
    few = only(*[f"[ {n}.0] {PCIE.format('Corrected')}" for n in range(99)])
    flood = only(*[f"[ {n}.0] {PCIE.format('Correctable')}" for n in range(100)])
    assert (few.count, load_catalog().classify(few).severity) == (99, Severity.INFO)
    assert (flood.count, load_catalog().classify(flood).severity) == (100, Severity.WARNING)


@pytest.mark.parametrize(
    ("severity", "code"),
    [
        ("Uncorrected (Fatal)", "host.pcie_fatal"),
        ("Uncorrectable (Fatal)", "host.pcie_fatal"),
        ("Uncorrected (Non-Fatal)", "host.pcie_nonfatal"),
        ("Corrected", "host.pcie_corrected"),
    ],
)
def test_every_spelling_of_a_pcie_severity_is_read(severity: str, code: str) -> None:
    fault = only(f"[ 1.0] {PCIE.format(severity)}")
    assert fault.code == code
    assert (fault.component.type, fault.component.pci) == (ComponentType.NODE, "0000:40:01.1")


def test_the_lines_after_a_pcie_error_name_its_error_bits() -> None:
    fault = only(
        f"[ 1.0] {PCIE.format('Uncorrected (Fatal)')}",
        "[ 1.1] pcieport 0000:40:01.1:   device [8086:6f04] error status/mask=00000020/00000000",
        "[ 1.2] pcieport 0000:40:01.1:    [ 5] Surprise Down Error    (First)",
        "[ 1.3] pcieport 0000:99:01.1:    [12] Timeout",
    )
    assert fault.attributes["errors"] == "Surprise Down Error"
    assert fault.attributes["type"] == "Data Link Layer"


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("nvidia 0000:c1:00.0", ComponentType.GPU),
        ("mlx5_core 0000:5e:00.0", ComponentType.NIC),
        ("nvme 0000:01:00.0", ComponentType.DISK),
    ],
)
def test_the_driver_decides_the_component_of_a_pcie_error(device: str, kind: ComponentType) -> None:
    assert only(f"[ 1.0] {device}: AER: PCIe Bus Error: severity=Uncorrectable (Fatal)").component.type is kind


@pytest.mark.parametrize(
    ("status", "code"),
    [("be00000000800400", "host.machine_check"), ("8c00004000010090", "host.machine_check_corrected")],
)
def test_the_status_of_a_machine_check_decides_whether_it_was_corrected(status: str, code: str) -> None:
    assert only(f"[ 1.0] mce: [Hardware Error]: CPU 14: Machine Check Exception: 5 Bank 7: {status}").code == code


def test_a_container_at_its_memory_limit_is_no_fault_of_the_node() -> None:
    node = only("[ 1.0] Out of memory: Killed process 4242 (NVRM: Xid (PCI:) total-vm:1024kB")
    assert (node.code, node.attributes["process"]) == ("host.out_of_memory", "NVRM: Xid (PCI:")
    assert read("[ 1.0] Memory cgroup out of memory: Killed process 4242 (oxide) total-vm:1024kB") == []


def test_a_regained_carrier_is_a_clear_and_a_first_carrier_is_nothing() -> None:
    line = "Feb  3 04:05:06 h systemd-networkd[11]: ib6: {} carrier"
    kinds = [type(one) for one in read(*(line.format(word) for word in ("Gained", "Lost", "Gained", "Gained")))]
    assert kinds == [Fault, Clear]
    assert only(line.format("lost")).node == "h"


@pytest.mark.parametrize("name", ["veth0a1b2c3", "docker0", "podman0", "lxdbr0", "cali123", "lxc45"])
def test_interfaces_of_containers_cause_no_faults(name: str) -> None:
    assert read(f"Feb  3 04:05:06 h systemd-networkd[11]: {name}: Lost carrier") == []


@pytest.mark.parametrize("device", ["loop3", "fd0", "sr0", "ram1", "zram0"])
def test_an_io_error_of_a_device_that_is_no_disk_of_the_node_is_no_fault(device: str) -> None:
    line = "[  812.617543] blk_update_request: I/O error, dev {}, sector 0 op 0x0:(READ)"
    assert read(line.format(device)) == []
    assert only(line.format("sda")).code == "host.disk_io_error"


def test_a_lost_carrier_is_read_from_a_journal() -> None:
    line = (
        '{"MESSAGE":"ib6: Lost carrier","_TRANSPORT":"journal","SYSLOG_IDENTIFIER":"systemd-networkd","_HOSTNAME":"h"}'
    )
    assert only(line).code == "net.carrier_lost"


def test_a_host_message_written_by_a_user_needs_no_action() -> None:
    fault = only("11,2,3,-;Kernel panic - not syncing: made up")
    assert (fault.severity, fault.action) == (Severity.INFO, Action.NONE)


PREFIXES = (
    "[ 8123.617543] ",
    "[Tue Feb  3 04:05:06 2026] ",
    "[Tue Feb  3 04:05:06 2026] ip-10-0-0-7 kernel: ",
    "kern  :err   : 2026-02-03T04:05:06,502716+00:00 ",
    "2026-02-03T04:05:06.5+00:00 ip-10-0-0-7 kernel: ",
    "<3>1 2026-02-03T04:05:06Z ip-10-0-0-7 kernel - - - ",
    "2026-02-03T04:05:06.123456789Z stderr F ",
    "Feb  3 04:05:06 ip-10-0-0-7 kernel: [  68.1] ",
    "<3>[ 8123.617543] ",
    "3,1,812361754,-;",
    "kernel: ",
    "",
)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_host_faults_are_read_behind_every_prefix(prefix: str) -> None:
    lines = (SAMPLES / "kernel-host.log").read_text("utf-8").splitlines()
    plain = [one.code for one in read(*lines)]
    assert [one.code for one in read(*(prefix + line.partition("] ")[2] for line in lines))] == plain


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.log")), ids=lambda path: path.name)
@pytest.mark.parametrize("size", [1000, 4099])
def test_a_log_in_pieces_yields_the_same_observations_as_a_whole_log(sample, size: int) -> None:
    decoder = registry.get("kernel-log")
    assert decoder.decode_pieces is not None
    body = b"[    0.000000] Linux version 5.15\n" + sample.read_bytes()
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    assert decoder.decode_pieces(pieces, Hints()) == decoder.decode(body, Hints())


def test_the_registers_of_xid_74_name_the_findings() -> None:
    line = "[ 1.0] NVRM: Xid (PCI:0003:00:00): 74, pid=1, name=x, NVLink: fatal error detected on link 14({})"
    registers = {
        "0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0": ("repeated_only", Action.RESET_GPU),
        "0x100, 0x0, 0x1, 0x0, 0x0, 0x0, 0x0": ("hardware, ecc_parity", Action.RESET_GPU),
        "0x200000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0": ("signal_integrity", Action.RUN_DIAGNOSTICS),
        "0x0, 0x0, 0x0, 0x0, 0x100000, 0x0, 0x0": ("ecc_threshold", Action.NONE),
        "0x40000001, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0": ("ignorable", Action.NONE),
        "0x0, 0x0, 0x0, 0x1, 0x0, 0x0, 0x0": ("undescribed", Action.RESET_GPU),
    }
    for words, (findings, action) in registers.items():
        fault = only(line.format(words))
        assert (fault.attributes["findings"], load_catalog().classify(fault).action) == (findings, action)
        assert fault.attributes["link"] == "14"


def test_the_cause_of_a_link_event_overrides_the_printed_severity() -> None:
    line = "[ 1.0] NVRM: Xid (PCI:0000:04:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 ({} 0x00000000 0x0)"
    asked = {
        word: load_catalog().classify(only(line.format(word))) for word in ("0x025001c6", "0x026001c6", "0x02600011")
    }
    assert [fault.action for fault in asked.values()] == [Action.RESET_GPU, Action.NONE, Action.NONE]
    assert asked["0x026001c6"].attributes["cause"] == "0x26"


def test_the_worst_bit_of_a_status_decides() -> None:
    line = "[ 1.0] NVRM: Xid (PCI:0000:04:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 03 (0x00000004 {} 0x0)"
    assert load_catalog().classify(only(line.format("0x00000140"))).action is Action.RESET_GPU
    assert load_catalog().classify(only(line.format("0x00000300"))).action is Action.NONE


ENA = "ena 0000:00:06.0 ens6: "


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ("The number of lost tx completions is above the threshold (129 > 128). Reset the device", "net.device_hang"),
        ("Lost TX completions are above the threshold (129 > 128). Completion", "net.device_hang"),
        ("Keep alive watchdog timeout.", "net.device_hang"),
        ("ENA admin queue is not in running state!", "net.device_hang"),
        ("Potential MSIX issue on Rx side Queue = 3. Reset the device", "net.device_hang"),
        ("The ena device didn't send a completion for the admin cmd 9 status 0", "net.device_hang"),
        ("Trigger reset is on", "net.device_hang"),
        ("Reset attempt failed. Can not reset the device", "net.nic_unhealthy"),
        ("Found a Tx that wasn't completed on time, qid 3, index 11.", None),
        ("Device reset completed successfully, Driver info: Elastic Network Adapter (ENA) v2.13.0g", None),
    ],
)
def test_a_reset_of_the_ena_adapter_is_a_fault_and_a_late_packet_is_not(says: str, code: str | None) -> None:
    for prefix in ("[ 9.0] ", "Feb  3 04:05:06 gpu-1 kernel: ", "3,9,5123456,-;", "gpu-1 unknown: "):
        found = read("[ 1.0] x: up", f"{prefix}{ENA}{says}")
        assert [(one.code, one.component.pci) for one in found] == ([(code, "0000:00:06")] if code else []), prefix


def test_the_cause_of_a_reset_and_the_reset_are_one_fault_of_their_adapter() -> None:
    caused = [f"[ 10.1] {ENA}Keep alive watchdog timeout.", f"[ 10.2] {ENA}Trigger reset is on"]
    other = "[ 10.3] ena 0000:00:07.0 ens7: Trigger reset is on"
    later = f"[ 90.0] {ENA}Trigger reset is on"
    assert [one.component.pci for one in read(*caused, other, later)] == ["0000:00:06", "0000:00:07", "0000:00:06"]


@pytest.mark.parametrize("text", ["critical medium error, dev sda, sector 8", "I/O error, dev nvme1n1, sector 8"])
def test_a_disk_error_of_linux_4_14_is_found_in_a_log_of_any_length(text: str) -> None:
    quiet = "".join(f"[{n:12.6f}] audit: type=1400 audit(1.{n}:1): x\n" for n in range(300))
    body = f"{quiet}[ 4000.000001] print_req_error: {text}\n{quiet}"
    assert [one.code for one in registry.decode("kernel-log", body.encode())] == ["host.disk_io_error"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Oops: 0002 [#1] SMP NOPTI", "host.kernel_oops"),
        ("general protection fault: 0000 [#1] SMP", "host.kernel_oops"),
        ("nfs: server fs-1 not responding, timed out", "host.file_server_lost"),
        ("VFS: file-max limit 1000 reached", "host.file_limit"),
    ],
)
def test_a_message_behind_an_unknown_prefix_is_found(line: str, code: str) -> None:
    body = f"[ 1.000001] usb 1-1: new\nunknown-shipper>> {line}\n"
    assert [one.code for one in registry.decode("kernel-log", body.encode())] == [code]
