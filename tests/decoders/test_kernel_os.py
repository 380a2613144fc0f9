"""`kernel-log`: crashes, stalls, file servers, limits, and devices that the kernel removed."""

from __future__ import annotations

import json

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.kernel.kernel_log import DumpSplitter
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Clear, Fault
from tests.loops import for_each


def read(*lines: str) -> list[Fault | Clear]:
    found = registry.decode("kernel-log", "\n".join(lines).encode())
    return [one for one in found if isinstance(one, Fault | Clear)]


def codes(*lines: str) -> list[str]:
    return [one.code for one in read(*lines)]


LINES = {
    "mce: Uncorrected hardware memory error in user-access at 1a2b3c4d40": "host.memory_uncorrected",
    "Memory failure: 0x1a2b3c4: Sending SIGBUS to python3:4242 due to hardware memory corruption": (
        "host.memory_uncorrected"
    ),
    "Memory failure: 0x1a2b3c4: Killing python3:4242 due to hardware memory corruption": "host.memory_uncorrected",
    "nvme nvme0: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10": "host.disk_controller_down",
    "nvme nvme2: Removing after probe failure status: -19": "host.disk_failed",
    "blk_update_request: critical medium error, dev nvme1n1, sector 7814037 op 0x0:(READ)": "host.disk_io_error",
    "critical medium error, dev sda, sector 12345 op 0x0:(READ) flags 0x0": "host.disk_io_error",
    "BTRFS: Remounting filesystem read-only": "host.filesystem_read_only",
    "XFS (dm-3): Corruption of in-memory data detected.  Shutting down filesystem": "host.filesystem_error",
    "EXT4-fs warning (device sda1): ext4_dx_add_entry:2461: Directory index full!": "host.filesystem_warning",
    "mlx5_core 0000:5e:00.0: poll_health:823:(pid 0): Fatal error 1 detected": "net.nic_unhealthy",
    "mlx5_core 0000:5e:00.0: mlx5_handle_bad_state:254:(pid 9): handling bad device here": "net.nic_unhealthy",
    "mlx5_core 0000:5e:00.0: mlx5_health_try_recover:327:(pid 9): health recovery failed": "net.nic_unhealthy",
    "infiniband rdmap0s6: Device isn't ready, can't reset device": "net.efa_error",
    "efa 0000:00:1b.0: Reset indication didn't turn off": "net.efa_error",
    "pcieport 0000:40:01.1: DPC: containment event, status:0x1f01 source:0x0000": "host.pcie_contained",
    "pcieport 0000:00:1c.0: pciehp: Slot(3): Link Down": "host.pcie_link_down",
    "BUG: unable to handle kernel NULL pointer dereference at 0000000000000008": "host.kernel_oops",
    "BUG: kernel NULL pointer dereference, address: 0000000000000008": "host.kernel_oops",
    "BUG: unable to handle page fault for address: ffffffffc0a81234": "host.kernel_oops",
    "Unable to handle kernel paging request at virtual address ffff80001234": "host.kernel_oops",
    "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP": "host.kernel_oops",
    "general protection fault: 0000 [#1] SMP NOPTI": "host.kernel_oops",
    "Oops: 0002 [#1] SMP": "host.kernel_oops",
    "divide error: 0000 [#1] SMP NOPTI": "host.kernel_oops",
    "kernel BUG at fs/ext4/inode.c:2721!": "host.kernel_oops",
    "rcu: INFO: rcu_sched self-detected stall on CPU": "host.rcu_stall",
    "INFO: rcu_preempt detected stalls on CPUs/tasks: { 3} (detected by 1, t=60002 jiffies)": "host.rcu_stall",
    "watchdog: CPU7: Watchdog detected hard LOCKUP on cpu 7": "host.hard_lockup",
    "thermal thermal_zone0: acpitz: critical temperature reached, shutting down": "host.overheated",
    "thermal thermal_zone0: critical temperature reached (105 C), shutting down": "host.overheated",
    "nfs: server 10.0.0.5 not responding, still trying": "host.file_server_lost",
    "Lustre: scratch-OST0003-osc-ff9: Connection to scratch-OST0003 (at 10.0.0.1@o2ib) was lost; in progress": (
        "host.file_server_lost"
    ),
    "VFS: file-max limit 1000000 reached": "host.file_limit",
    "nf_conntrack: nf_conntrack: table full, dropping packet": "net.conntrack_full",
    "unregister_netdevice: waiting for eth0 to become free. Usage count = 1": "net.device_in_use",
    "nvidia: probe of 0000:02:00.0 failed with error -1": "host.gpu_init_failed",
    "nvidia 0000:c1:00.0: probe with driver nvidia failed with error -1": "host.gpu_init_failed",
    "NVRM: The NVIDIA probe routine failed for 1 device(s).": "host.gpu_init_failed",
    "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=i-0a hostname=h nd-id=2 nc-id=1 serial-num=1 action=X": (
        "agent.neuron_memory_error"
    ),
    "neuron: NEURON_HW_ERR=DMA_ERROR nd-id=2": "agent.neuron_dma_error",
    "NEURON_HW_ERR=HANG_ON_COLLECTIVES nd-id=2": "agent.neuron_error",
    "NVRM: The NVIDIA GPU 0000:0e:00.0 (PCI ID: 10de:1b06) installed in this system has fallen off the bus": "xid.79",
}


@for_each(("line", "code"), LINES.items())
@for_each("prefix", ["[ 8123.617543] ", "Feb  3 04:05:06 h kernel: ", ""])
def test_a_message_is_read_behind_a_prefix_and_after_harmless_lines(prefix: str, line: str, code: str) -> None:
    harmless = [f"[{n:12.6f}] nfs: audit of {n}" for n in range(600)] if prefix.startswith("[") else []
    assert codes(*harmless, *harmless, prefix + line) == [code]


@pytest.mark.parametrize(
    "line",
    [
        "traps: python[123] general protection fault ip:7f12 sp:7ffd error:0 in libc.so.6[7f10+1c0]",
        "nvme nvme0: 64/0/0 default/read/poll queues",
        "rcu: Hierarchical RCU implementation.",
        "rcu: INFO: rcu_sched detected 3 tasks",
        "pcieport 0000:00:1c.0: pciehp: Slot(3): Link Up",
        "pcieport 0000:40:01.1: DPC: error containment capabilities: Int Msg #0, RPExt- PoisonedTLP-",
        "Lustre: Mounted scratch-client",
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).",
        "mlx5_core 0000:5e:00.0: E-Switch: Total vports 2",
    ],
)
def test_a_similar_message_is_no_fault(line: str) -> None:
    assert read(f"[ 1.0] {line}") == []


def test_the_lines_of_one_oops_are_one_fault_and_a_later_oops_is_another() -> None:
    first = "[ 100.000001] BUG: kernel NULL pointer dereference, address: 0000000000000008"
    assert codes(first, "[ 100.000009] Oops: 0002 [#1] SMP", "[ 200.000001] Oops: 0002 [#2] SMP") == [
        "host.kernel_oops",
        "host.kernel_oops",
    ]


def test_a_crash_that_an_operator_requested_is_no_fault() -> None:
    assert (
        codes("<6>[ 1.0] sysrq: Trigger a crash", "<0>[ 1.1] Kernel panic - not syncing: sysrq triggered crash") == []
    )
    forged = "11,2,3,-;sysrq: Trigger a crash"
    assert codes(forged, "<0>[ 1.1] Kernel panic - not syncing: Fatal exception") == ["host.kernel_panic"]


def test_a_panic_that_pstore_kept_is_not_new() -> None:
    (panic,) = read("Panic#1 Part1", "<0>[ 8123.617543] Kernel panic - not syncing: Fatal exception")
    assert isinstance(panic, Fault)
    assert (panic.severity, panic.action, panic.attributes["boot"]) == (Severity.INFO, Action.NONE, "previous")
    (timed,) = read("Panic#1 Part1", "[Tue Feb  3 04:05:06 2026] Kernel panic - not syncing: Fatal exception")
    assert (timed.observed_at is not None, load_catalog().classify(timed).severity) == (True, Severity.FATAL)  # type: ignore[arg-type]  # a fault


OLD_PANIC = "Panic#1 Part1\n<0>[ 8123.717543] Kernel panic - not syncing: Fatal exception\n"
NEW_PANIC = "[ 12.5] Kernel panic - not syncing: Fatal exception\n"


@pytest.mark.parametrize(
    "before", ["", "[ 1.0] usb 1-1: new device\n", "==> /var/lib/systemd/pstore/1770091506/dmesg.txt <==\n", " \n"]
)
@pytest.mark.parametrize("after", ["", "==> dmesg.txt <==\n[ 1.0] usb 1-1: new device\n", "[ 1.0] usb 1-1: new\n"])
def test_only_the_panic_in_the_dump_of_pstore_is_of_an_earlier_boot(before: str, after: str) -> None:
    (old,) = read(before + OLD_PANIC + after)
    assert isinstance(old, Fault)
    assert (old.severity, old.action, old.attributes["boot"]) == (Severity.INFO, Action.NONE, "previous")
    for both in (before + OLD_PANIC + after + NEW_PANIC, NEW_PANIC + before + OLD_PANIC + after):
        panics = [one for one in read(both) if isinstance(one, Fault)]
        assert sorted(one.attributes.get("boot", "this") for one in panics) == ["previous", "this"]
        assert [one.severity for one in panics if "boot" not in one.attributes] == [None]


@pytest.mark.parametrize(
    "lost",
    [
        "NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU has fallen off the bus.",
    ],
)
def test_a_lost_gpu_in_the_dump_of_pstore_does_not_hide_one_of_this_boot(lost: str) -> None:
    old = f"Panic#1 Part1\n<0>[ 8.0] {lost}\n"
    unnumbered = "[ 9.0] NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.\n"
    failed = "[ 9.0] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    assert [one.attributes.get("boot") for one in read(old)] == ["previous"]
    for new in (unnumbered, failed):
        assert None in [one.attributes.get("boot") for one in read(old + new)]


SYSLOG = "2026-02-03T12:{at}:00Z gpu-1 kernel: [{uptime:>6}.0] {text}"
LOST = "NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus."
XID_79 = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("at", "uptime", "expected"),
    [("04", "740", 1), ("04", "60", 2), ("04", "500", 2), ("06", "860", 2)],
    ids=["one boot", "after a restart", "as long after a restart", "one boot, too late"],
)
def test_a_lost_gpu_after_a_restart_is_no_repetition_of_the_xid_79_before_it(
    at: str, uptime: str, expected: int
) -> None:
    before = SYSLOG.format(at="00", uptime="500", text=XID_79)
    assert codes(before, SYSLOG.format(at=at, uptime=uptime, text=LOST)) == ["xid.79"] * expected


def journal(boot: str, node: str, text: str) -> str:
    fields = {"MESSAGE": text, "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "_HOSTNAME": node}
    return json.dumps({**fields, "_BOOT_ID": boot * 32, "__REALTIME_TIMESTAMP": "1770120000000000"})


@pytest.mark.parametrize(("boot", "node"), [("b", "gpu-1"), ("a", "gpu-2")])
@pytest.mark.parametrize("repeated", [LOST, "NVRM: The NVIDIA probe routine failed for 1 device(s)."])
def test_a_message_of_another_boot_or_node_is_no_repetition(boot: str, node: str, repeated: str) -> None:
    first = journal("a", "gpu-1", XID_79)
    assert len(read(first, journal("a", "gpu-1", repeated))) == 1
    assert len(read(first, journal(boot, node, repeated))) == 2


def test_the_driver_probe_that_failed_in_two_boots_failed_twice() -> None:
    failed = "NVRM: The NVIDIA probe routine failed for 1 device(s)."
    found = read(journal("a", "gpu-1", failed), journal("a", "gpu-1", failed), journal("b", "gpu-1", failed))
    assert [one.attributes["boot_id"][0] for one in found] == ["a", "b"]


def test_a_failed_probe_of_another_boot_leaves_one_loss_one_fault() -> None:
    old = f"Panic#1 Part1\n<0>[ 8.0] {XID_79}\n<0>[ 8.1] {LOST}\n"
    failed = "[ 9.0] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    found = [(one.code, one.attributes.get("boot")) for one in read(old + failed) if isinstance(one, Fault)]
    assert found == [("xid.79", "previous"), ("host.gpu_init_failed", None)]


def test_a_dump_of_pstore_continues_in_its_next_part_and_piece() -> None:
    parts = OLD_PANIC + OLD_PANIC.replace("Part1", "Part2")
    assert [one.attributes.get("boot") for one in read(parts)] == ["previous"] * 2
    pieces = [b"Panic#1 Part1\n<6>[ 1.0] usb\n", b"<0>[ 8.0] Kernel panic - not syncing: Fatal exception\n"]
    splitter = DumpSplitter()
    assert [part for piece in pieces for part in splitter.parts(piece)] == [(piece, True) for piece in pieces]


@pytest.mark.parametrize(
    ("driver", "down", "up"),
    [
        ("mlx5_core", "Link down", "Link up"),
        ("ice", "NIC Link is Down", "NIC Link is up 100 Gbps Full Duplex"),
        ("ixgbe", "NIC Link is Down", "NIC Link is Up 10 Gbps, Flow Control: None"),
    ],
)
def test_a_link_that_a_driver_reports_as_down_and_up_five_times_is_five_faults_with_their_ends(
    driver: str, down: str, up: str
) -> None:
    line = f"[ {{}}.0] {driver} 0000:5e:00.0 ens1np0: {{}}"
    once = (down, up)
    observations = read(*(line.format(second, once[second % 2]) for second in range(10)))
    flaps = [one for one in observations if one.code == "net.carrier_lost"]
    assert [type(one) for one in flaps] == [Fault, Clear] * 5
    assert {one.component.name for one in observations} == {"ens1np0"}
    assert read(line.format(1, up)) == []


def test_a_file_server_that_answers_again_is_a_clear_of_its_fault() -> None:
    lost, found = read("[ 1.0] nfs: server 10.0.0.5 not responding, still trying", "[ 2.0] nfs: server 10.0.0.5 OK")
    assert isinstance(found, Clear)
    assert (lost.code, lost.component) == (found.code, found.component)


@pytest.mark.parametrize(
    ("line", "server"),
    [
        ("nfs: server fs-1.example.com not responding, still trying", "fs-1.example.com"),
        (
            "Lustre: s-OST0003-osc-ff9: Connection to s-OST0003 (at 10.0.0.1@o2ib) was lost; in progress",
            "10.0.0.1@o2ib",
        ),
    ],
)
def test_a_lost_file_server_is_named_as_the_remote_end(line: str, server: str) -> None:
    (lost,) = read(f"[ 1.0] {line}")
    assert isinstance(lost, Fault)
    assert lost.attributes["server"] == server


def test_a_lustre_target_that_is_connected_again_ends_its_fault() -> None:
    lost, found = read(
        "[ 1.0] Lustre: s-OST0003-osc-ff9: Connection to s-OST0003 (at 10.0.0.1@o2ib) was lost; in progress",
        "[ 2.0] Lustre: s-OST0003-osc-ff9: Connection restored to s-OST0003 (at 10.0.0.1@o2ib)",
    )
    assert isinstance(found, Clear)
    assert (lost.code, lost.component) == (found.code, found.component)


def test_a_failed_probe_is_no_second_fault_beside_the_gpu_that_caused_it() -> None:
    lost = "[ 1.0] NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus."
    assert codes(lost, "[ 1.1] NVRM: The NVIDIA probe routine failed for 1 device(s).") == ["xid.79"]


def test_a_loss_of_carrier_that_kernel_and_networkd_report_is_one_flap() -> None:
    kernel = "[ 1.0] mlx5_core 0000:5e:00.0 ens5: Link down"
    networkd = "Feb  3 04:05:06 h systemd-networkd[11]: ens5: {} carrier"
    kinds = [type(one) for one in read(kernel, networkd.format("Lost"), networkd.format("Gained"))]
    assert kinds == [Fault, Clear]


@pytest.mark.parametrize(
    "line",
    [
        "rasdaemon[811]: mce_record: bank=7, status=0xbd80000000100134, Uncorrected error, mci=Error_overflow",
        "mcelog[812]: Hardware event. This is not a software error. CPU 0 BANK 5 Uncorrected error",
        "nvidia-persistenced[813]: device 0000:c1:00.0 - failed to open.",
        "nvidia-persistenced[813]: device 0000:c1:00.0 - persistence mode enabled.",
    ],
)
def test_a_program_that_reports_hardware_errors_proves_nothing(line: str) -> None:
    kernel = "Feb  3 04:05:06 gpu-1 kernel: [ 1.0] NVRM: loading NVIDIA UNIX Open Kernel Module"
    assert codes(kernel, f"Feb  3 04:05:06 gpu-1 {line}") == []


REPORT = """{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5
{1}[Hardware Error]: event severity: fatal
{1}[Hardware Error]:  Error 0, type: fatal
{1}[Hardware Error]:   section_type: PCIe error
{1}[Hardware Error]:   port_type: 0, PCIe end point
{1}[Hardware Error]:   device_id: 0000:c1:00.0
{1}[Hardware Error]:   vendor_id: 0x10de, device_id: 0x2330
{2}[Hardware Error]: event severity: corrected
{2}[Hardware Error]:   section_type: memory error
{2}[Hardware Error]:   physical_address: 0x0000001234567000
{2}[Hardware Error]:   error_type: 2, single-bit ECC
{2}[Hardware Error]:   DIMM location: CPU 1 DIMM 4"""


def test_the_sections_of_the_firmwares_reports_are_attributes_of_their_faults() -> None:
    fatal, corrected = (one for one in read(*(f"[ 5.0] {line}" for line in REPORT.splitlines())))
    assert (fatal.code, corrected.code) == ("host.pcie_fatal", "host.memory_corrected")
    assert (fatal.attributes["section"], fatal.component.pci) == ("PCIe error", "0000:c1:00")
    assert (corrected.component.type, corrected.component.name) == ("memory", "CPU 1 DIMM 4")
    assert (corrected.attributes["section"], corrected.attributes["dimm"]) == ("memory error", "CPU 1 DIMM 4")
    assert corrected.attributes["error_type"] == "2, single-bit ECC"
    assert "address" in corrected.attributes
    assert "dimm" not in fatal.attributes


def test_a_section_without_the_start_of_its_report_is_no_fault() -> None:
    assert read("[ 5.0] {7}[Hardware Error]:   section_type: PCIe error", "[ 5.1] eth0: up") == []


@pytest.mark.parametrize(
    ("severity", "kind", "expected"),
    [
        ("recoverable", "030200", ("host.pcie_nonfatal", "gpu")),
        ("fatal", "020700", ("host.pcie_fatal", "nic")),
        ("corrected", "010802", ("host.pcie_corrected", "disk")),
        ("recoverable", "060400", ("host.pcie_nonfatal", "node")),
    ],
)
def test_the_firmwares_report_of_a_pcie_error_is_a_fault_of_its_device(
    severity: str, kind: str, expected: tuple[str, str]
) -> None:
    lines = f"event severity: {severity}", "  section_type: PCIe error", "  device_id: 0000:3b:00.0"
    (fault,) = read(*(f"[ 5.0] {{3}}[Hardware Error]: {line}" for line in (*lines, f"  class_code: {kind}")))
    assert (fault.code, fault.component.type, fault.component.pci) == (*expected, "0000:3b:00")
    assert "PCIe error" in fault.message


def test_the_firmwares_report_of_a_processor_stays_a_machine_check() -> None:
    lines = "event severity: fatal", "  section_type: general processor error"
    assert codes(*(f"[ 5.0] {{3}}[Hardware Error]: {line}" for line in lines)) == ["host.machine_check"]


FLAP = "2026-02-03T04:{:02}:{:02}+00:00 n-7 systemd-networkd[811]: {}: {} carrier"


def flaps(*seconds: int, name: str = "ib6") -> list[str]:
    return [FLAP.format(second // 60, second % 60, name, word) for second in seconds for word in ("Lost", "Gained")]


def test_four_losses_of_a_carrier_within_a_minute_are_one_flapping_link() -> None:
    found = [one for one in read(*flaps(0, 1, 2, 3, 4, 5)) if one.code == "net.link_flapping"]
    assert [(type(one), one.component.name, one.node) for one in found] == [(Fault, "ib6", "n-7")]
    assert found[0].message == "ib6 lost its carrier 4 times within 60 seconds."


@pytest.mark.parametrize("lines", [flaps(0, 1, 2), flaps(0, 30, 60, 90, 120), [*flaps(0, 1), *flaps(0, 1, name="ib7")]])
def test_a_link_that_goes_down_a_few_times_does_not_flap(lines: list[str]) -> None:
    assert "net.link_flapping" not in codes(*lines)


def test_losses_without_a_time_are_no_flapping_link() -> None:
    words = ("Lost", "Gained") * 6
    assert "net.link_flapping" not in codes(*(f"systemd-networkd[811]: ib6: {word} carrier" for word in words))
