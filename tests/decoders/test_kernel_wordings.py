"""`kernel-log`: the same faults in the words of older and newer kernels and drivers.

The words are those of the sources of Linux 3.10 to 6.16 (drivers/nvme, drivers/scsi, block, mlx5, drivers/pci,
net/sunrpc, fs/nfs) and of Lustre 2.5 to 2.15 (ptlrpc/import.c).
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Clear, Fault
from tests.loops import for_each


def read(*lines: str) -> list[Fault | Clear]:
    found = registry.decode("kernel-log", "\n".join(lines).encode())
    return [one for one in found if isinstance(one, Fault | Clear)]


def codes(*lines: str) -> list[str]:
    return [one.code for one in read(*lines)]


MLX5 = "mlx5_core 0000:5e:00.0: "
HEALTH = f"{MLX5}print_health_info:424:(pid 0): "
OLD_PORT = "0000:10:04.0:pcie010: "
PORT = "pcieport 0000:10:04.0: "
LOST = "Connection to s-OST0003 (at 10.0.0.1@tcp) was lost; in progress operations using this service will"
LINES = {
    "host.disk_failed": (
        "nvme 0000:01:00.0: Removing after probe failure",
        "nvme 0000:01:00.0: Removing after probe failure status: -19",
        "nvme nvme0: Removing after probe failure status: -4",
        "nvme: probe of 0000:01:00.0 failed with error -4",
        "nvme 0000:01:00.0: probe with driver nvme failed with error -12",
        "nvme nvme0: IO queues lost",
        "nvme nvme0: failure state error detected, request disconnect",
    ),
    "host.disk_controller_down": (
        "nvme 0000:01:00.0: Failed status: 3, reset controller",
        "nvme 0000:01:00.0: Device not ready; aborting initialisation",
        "nvme nvme0: Device not ready; aborting reset, CSTS=0x1",
        "nvme nvme0: frozen state error detected, reset controller",
    ),
    "host.disk_timeout": ("nvme 0000:01:00.0: I/O 22 QID 3 timeout, reset controller",),
    "host.disk_io_error": (
        "sd 0:0:0:0: [sda] tag#6 Sense Key : Medium Error [current] [descriptor]",
        "sd 0:0:0:0: [sda]  Sense Key : Hardware Error [current]",
        "sd 10:0:0:0: [sdaa] Add. Sense: Unrecovered read error - auto reallocate failed",
        "sd 0:0:0:0: [sda] tag#6 Add. Sense: Write error - auto reallocation failed",
        "nvme0n1: Read(0x2) @ LBA 4096, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR",
        "nvme0n1: I/O Cmd(0x1) @ LBA 4096, 8 blocks, I/O Error (sct 0x2 / sc 0x80) MORE DNR",
        "end_request: critical medium error, dev sda, sector 1234",
        "timeout error, dev nvme1n1, sector 99 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        "protection error, dev nvme1n1, sector 99 op 0x0:(READ) flags 0x0",
        "blk_update_request: recoverable transport error, dev nvme1n1, sector 99",
    ),
    "net.nic_unhealthy": (
        f"{MLX5}poll_health:739:(pid 0): device's health compromised - reached miss count",
        f"{HEALTH}Health issue observed, firmware internal error, severity(3) ERROR:",
        f"{HEALTH}Health issue observed, EQ error, severity(2) CRITICAL:",
        f"{HEALTH}synd 0x1: firmware internal error",
        f"{MLX5}synd 0x7: irisc not responding",
        f"{HEALTH}synd 0xa: ICM fetch PCI error",
        f"{HEALTH}PCI slot is unavailable",
        "mlx5_core: probe of 0000:5e:00.0 failed with error -12",
        f"{MLX5}probe with driver mlx5_core failed with error -110",
    ),
    "net.nic_hot": (
        f"{MLX5}temp_warn:194:(pid 0): High temperature on sensors with bit set 0 1",
        f"{MLX5}temp_warn:194:(pid 0): High temperature on sensors with bit set 0x0 0x1.",
        f"{HEALTH}Health issue observed, High temperature, severity(3) ERROR:",
        f"{HEALTH}synd 0x10: High temprature",
    ),
    "host.pcie_link_down": (
        "pciehp 0000:00:1c.0:pcie004: Slot(3): Link Down",
        "pciehp 0000:00:1c.0:pcie04: slot(3): Link Down event",
        "pcieport 0000:00:1c.0: pciehp: Slot(3-1): Link Down",
    ),
    "host.pcie_contained": (
        f"dpc {OLD_PORT}DPC containment event, status:0x1f01 source:0x0000",
        f"pcie-dpc {OLD_PORT}DPC ERR_FATAL triggered, remove downstream devices",
        f"dpc {OLD_PORT}DPC unmasked uncorrectable error detected, remove downstream devices",
        f"{PORT}DPC: containment event, status:0x1f01: unmasked uncorrectable error detected",
        f"{PORT}DPC: containment event, status:0x000d, ERR_FATAL received from 0000:34:00.0",
        f"{PORT}DPC: unmasked uncorrectable error detected",
        f"{PORT}DPC: RP PIO error detected",
    ),
    "host.file_server_lost": (
        "NFS: state manager failed on NFSv4 server 10.0.0.5 with error 13",
        "NFS: state manager: lease expired failed on NFSv4 server fs-1.example.com with error 5",
        "lockd: server 10.0.0.5 not responding, still trying",
        "nfs: server 10.0.0.5 not responding, timed out",
        f"Lustre: s-OST0003-osc-ff9: {LOST} wait for recovery to complete",
        "LustreError: 166-1: MGC10.0.0.1@o2ib: Connection to MGS (at 10.0.0.1@o2ib) was lost; in progress operations",
        "LustreError: 167-0: s-OST0003-osc-ff9: This client was evicted by s-OST0003; in progress operations",
    ),
}
CASES = [(line, code) for code, lines in LINES.items() for line in lines]


@for_each(("line", "code"), CASES)
@for_each("prefix", ["[ 8123.617543] ", "Feb  3 04:05:06 h kernel: ", ""])
def test_a_wording_is_read_behind_a_prefix_and_after_harmless_lines(prefix: str, line: str, code: str) -> None:
    quiet = ("nvme: audit of {}", "nvme0n1: p{}", "lockd: grace {}", "NFS: mount {}")
    harmless = [f"[{n:12.6f}] {quiet[n % 4].format(n)}" for n in range(1200)] if prefix.startswith("[") else []
    assert codes(*harmless, prefix + line) == [code]


@pytest.mark.parametrize(
    "line",
    [
        "nvme nvme0: restart after slot reset",
        "nvme nvme0: Device shutdown incomplete; abort shutdown",
        "nvme nvme0: IO queues not created",
        "nvme0n1: Compare(0x5) @ LBA 4096, 8 blocks, Compare Failure (sct 0x2 / sc 0x85) DNR",
        "nvme0n1: Read(0x2) @ LBA 4096, 8 blocks, Host Aborted Command (sct 0x3 / sc 0x71)",
        "nvme0: Identify(0x6), Invalid Field in Command (sct 0x0 / sc 0x2) DNR",
        " nvme0n1: p1 p2 p14 p15",
        "sd 0:0:0:0: [sda] Sense Key : Illegal Request [current]",
        "sd 0:0:0:0: [sda] Add. Sense: Invalid command operation code",
        "sr 1:0:0:0: [sr0] Sense Key : Medium Error [current]",
        "operation not supported error, dev nvme1n1, sector 99 op 0x9:(WRITE_ZEROES) flags 0x800",
        "critical space allocation error, dev dm-1, sector 5",
        "timeout error, dev loop3, sector 5",
        f"{MLX5}mlx5_health_try_recover:330:(pid 9): health recovery succeeded",
        f"{HEALTH}synd 0x0: unrecognized error",
        f"{HEALTH}assert_var[0] 0x00000000",
        f"{HEALTH}Health issue observed, EQ error, severity(4) WARNING:",
        f"{HEALTH}Health issue observed, firmware internal error, severity(5) NOTICE:",
        f"{MLX5}mlx5_pcie_event:296:(pid 1): PCIe slot advertised sufficient power (27W).",
        "pciehp 0000:00:1c.0:pcie004: Slot(3): Link Up",
        "pciehp 0000:00:1c.0:pcie004: Slot(3): Link Down event queued; currently getting powered on",
        "pcieport 0000:00:1c.0: pciehp: Slot(3): Card present",
        f"{PORT}DPC: software trigger detected",
        f"{PORT}DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ RP PIO Log 6",
        "NFS: Registering the id_resolver key type",
        "rpcbind: server localhost not responding, timed out",
        "Lustre: 8465:0:(client.c:1868:ptlrpc_expire_one_request()) @@@ Request sent has timed out for sent delay",
    ],
)
def test_a_similar_wording_is_no_fault(line: str) -> None:
    assert read(f"[    1.000001] {line}") == []


def test_the_two_lines_of_one_containment_are_one_fault_and_a_later_one_is_another() -> None:
    lines = (f"{PORT}DPC: containment event, status:0x1f01 source:0x0000", f"{PORT}DPC: ERR_FATAL detected")
    first, other = lines[0].replace("10:04", "20:04"), lines[1].replace("10:04", "30:04")
    found = read(*(f"[ {9 + n}.1] {line}" for n, line in enumerate((*lines, first, other))), f"[ 99.1] {lines[1]}")
    assert [one.component.pci for one in found] == ["0000:10:04", "0000:20:04", "0000:30:04", "0000:10:04"]


@pytest.mark.parametrize(
    "restored", ["s-OST0003 (at 10.0.0.1@tcp)", "10.0.0.1@tcp (at 10.0.0.1@tcp)", " (at 10.0.0.1@tcp)"]
)
def test_each_versions_report_of_a_restored_connection_ends_the_fault_of_its_target(restored: str) -> None:
    lost, found = read(
        f"[ 1.0] Lustre: s-OST0003-osc-ff9: {LOST} wait",
        f"[ 2.0] Lustre: s-OST0003-osc-ff9: Connection restored to {restored}",
    )
    assert isinstance(lost, Fault)
    assert isinstance(found, Clear)
    assert lost.component == found.component
    assert (lost.component.name, lost.attributes["target"]) == ("s-OST0003", "s-OST0003")


def test_a_lock_server_that_answers_again_is_a_clear_of_its_fault() -> None:
    lost, found = read("[ 1.0] lockd: server h not responding, still trying", "[ 2.0] lockd: server h OK")
    assert isinstance(found, Clear)
    assert (lost.code, lost.component) == (found.code, found.component)


def test_the_whole_sector_of_a_large_disk_is_kept() -> None:
    (fault,) = read("[ 1.0] critical medium error, dev nvme1n1, sector 781403712345 op 0x0:(READ)")
    assert isinstance(fault, Fault)
    assert (fault.attributes["sector"], fault.attributes["error"]) == ("781403712345", "critical medium")


@pytest.mark.parametrize(
    ("code", "judged"),
    [
        ("host.disk_failed", (Severity.FATAL, Action.REPLACE_NODE)),
        ("host.disk_controller_down", (Severity.ERROR, Action.RUN_DIAGNOSTICS)),
        ("host.disk_io_error", (Severity.ERROR, Action.RUN_DIAGNOSTICS)),
        ("net.nic_unhealthy", (Severity.FATAL, Action.REBOOT_NODE)),
        ("net.nic_hot", (Severity.WARNING, Action.RUN_DIAGNOSTICS)),
        ("host.pcie_contained", (Severity.FATAL, Action.REBOOT_NODE)),
        ("host.pcie_link_down", (Severity.WARNING, Action.NONE)),
        ("host.file_server_lost", (Severity.WARNING, Action.NONE)),
    ],
)
def test_a_wording_is_judged_as_its_row_and_the_row_names_linux(code: str, judged: tuple[Severity, Action]) -> None:
    catalog = load_catalog()
    for line in LINES[code]:
        (fault,) = read(f"[ 1.0] {line}")
        assert isinstance(fault, Fault)
        classified = catalog.classify(fault)
        assert (classified.severity, classified.action) == judged, line
    assert "Linux" in {one.source for one in catalog.row(code).recommendations}


NOON = Hints(datetime(2026, 2, 4, 12, tzinfo=UTC))
HUMAN = (
    "[Feb  3 04:06] usb 1-1: new device\n{quiet}[  +0.000012] {first}\n"
    "[Feb  3 04:07] usb 1-2: new device\n[ +12.000001] {second}\n"
)


@pytest.mark.parametrize("quiet", [0, 3, 20_000])
def test_a_difference_of_dmesg_for_humans_has_the_minute_of_the_line_before(quiet: int) -> None:
    records = {"first": "NVRM: Xid (PCI:0000:c1:00): 48, pid=1", "second": "nvme nvme0: IO queues lost"}
    log = HUMAN.format(quiet="[  +1.000000] audit: type=1400 x\n" * quiet, **records).encode()
    decoded = registry.read("kernel-log", log, NOON)
    pieces = registry.read_pieces("kernel-log", (log[at : at + 4099] for at in range(0, len(log), 4099)), NOON)
    assert decoded.observations == pieces.observations
    assert [(one.code, one.observed_at) for one in decoded.observations if isinstance(one, Fault)] == [
        ("xid.48", datetime(2026, 2, 3, 4, 6, tzinfo=UTC)),
        ("host.disk_failed", datetime(2026, 2, 3, 4, 7, tzinfo=UTC)),
    ]


def test_a_difference_without_a_minute_before_it_has_no_time() -> None:
    (fault,) = read("[  +0.000012] NVRM: Xid (PCI:0000:c1:00): 48, pid=1")
    assert fault.observed_at is None
