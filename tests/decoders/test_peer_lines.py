"""Agreement with the rules of gpud, node-problem-detector and the EKS node monitoring agent for lines of logs.

Each line is written here in the form that a rule of a peer searches for; no peer's file is copied. A peer that reports
a line is agreed with if the line is decoded to a fault that is about the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.decoders import registry
from faultbridge.domain.faults import Fault
from tests.decoders import test_peer_agreement as catalogs

GPUD, NPD, EKS = "gpud", "node-problem-detector", "Amazon EKS"
KERNEL = (
    (GPUD, "md/raid0md7: Disk failure on nvme3n1p1 detected, failing array.", "host.raid_member_failed"),
    (GPUD, "EXT4-fs (md7): Remounting filesystem read-only", "host.filesystem_read_only"),
    (GPUD, "XFS (sdb2): Remounting filesystem read-only", "host.filesystem_read_only"),
    (GPUD, "BTRFS: Remounting filesystem read-only", "host.filesystem_read_only"),
    (GPUD, "block nvme3n1: no available path - failing I/O", "host.disk_io_error"),
    (GPUD, "nvme nvme3: I/O tag 9 (1009) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller", "host.disk_timeout"),
    (GPUD, "nvme nvme3: Disabling device after reset failure: -19", "host.disk_failed"),
    (GPUD, "kworker/u64:3: attempt to access beyond end of device", "host.filesystem_error"),
    (GPUD, "Buffer I/O error on dev dm-4, logical block 77, lost async page write", "host.disk_io_error"),
    (GPUD, "EXT4-fs (dm-4): I/O error while writing superblock", "host.filesystem_error"),
    (
        GPUD,
        "mlx5_core 0000:3a:00.0: mlx5_pcie_event:299:(pid 5): Detected insufficient power on the PCIe slot (25W).",
        "net.slot_power_low",
    ),
    (
        GPUD,
        "mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 1, Cable error, High Temperature",
        "net.port_module_error",
    ),
    (GPUD, "mlx5_cmd_out_err:838:(pid 7): ACCESS_REG(0x805) op_mod(0x1) failed, status x", "net.command_failed"),
    (GPUD, "INFO: task kcompactd0:411 blocked for more than 120 seconds.", "host.hung_task"),
    (GPUD, "task dataloader:4110 blocked for more than 241 seconds.", "host.hung_task"),
    (GPUD, "watchdog: BUG: soft lockup - CPU#9 stuck for 23s! [python3:4110]", "host.soft_lockup"),
    (GPUD, "Out of memory: Killed process 4110, UID 1000, (python3).", "host.out_of_memory"),
    (GPUD, "VFS: file-max limit 500000 reached", "host.file_limit"),
    (GPUD, "Kernel panic - not syncing: hung_task: blocked tasks", "host.kernel_panic"),
    (GPUD, "NVRM: Xid (PCI:0000:3a:00): 79, GPU has fallen off the bus.", "xid.79"),
    (GPUD, "nvidia-nvswitch1: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid.20034"),
    (NPD, "Out of memory: Killed process 41 (x) total-vm:9kB, anon-rss:9kB, file-rss:0kB", "host.out_of_memory"),
    (NPD, "task docker:20744 blocked for more than 120 seconds.", "host.hung_task"),
    (NPD, "unregister_netdevice: waiting for eth1 to become free. Usage count = 2", "net.device_in_use"),
    (NPD, "BUG: unable to handle kernel NULL pointer dereference at 0000000000000010", "host.kernel_oops"),
    (NPD, "divide error: 0000 [#1] SMP", "host.kernel_oops"),
    (NPD, "EXT4-fs error (device sdb2): ext4_find_entry:1456: inode #2: comm x", "host.filesystem_error"),
    (NPD, "EXT4-fs warning (device sdb2): ext4_end_bio:344: I/O error 10", "host.filesystem_warning"),
    (NPD, "Buffer I/O error on device sdb2, logical block 4", "host.disk_io_error"),
    (NPD, "XFS (dm-4): xfs_do_force_shutdown(0x8). Shutting down filesystem", "host.filesystem_error"),
    (NPD, "EDAC MC1: 1 CE memory read error on CPU_SrcID#1 (channel:0 slot:0)", "host.memory_corrected"),
    (NPD, "{3}[Hardware Error]: event severity: corrected", "host.machine_check_corrected"),
    (NPD, "{3}[Hardware Error]: event severity: recoverable", "host.machine_check"),
    (NPD, "{3}[Hardware Error]: event severity: fatal", "host.machine_check"),
    (EKS, "nf_conntrack: nf_conntrack: table full, dropping packet", "net.conntrack_full"),
    (EKS, "BUG: unable to handle page fault for address: ffffffffc0a81234", "host.kernel_oops"),
    (EKS, "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR nd-id=3 nc-id=1", "agent.neuron_memory_error"),
    (EKS, "NEURON_HW_ERR=NC_UNCORRECTABLE_ERROR nd-id=3 nc-id=1", "agent.neuron_memory_error"),
    (EKS, "neuron: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3", "agent.neuron_memory_error"),
    (EKS, "NEURON_HW_ERR=DMA_ERROR affecting devices", "agent.neuron_dma_error"),
)
FABRIC = (
    (GPUD, "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:85:00.0", "sxid.20034"),
    (GPUD, "detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:85:00.0", "sxid.12028"),
    (GPUD, "failed to find the GPU handle 77 in the multicast team request setup 78.", "host.fabric_manager_error"),
    (
        GPUD,
        "detected number of NVSwitches don't match with any supported system topology, aborting fabric manager",
        "host.fabric_manager_failed",
    ),
)
# A peer reports these lines; Faultbridge does not, for the reason given.
DEPARTURES = {
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing": (
        "printed on healthy nodes whenever a process that used GPUDirect RDMA ends"
    ),
    "python3[4110]: segfault at 7f79 ip 7f7c sp 7f7c error 4 in libnccl.so.2[7f7c+d3]": "a program crashed",
    "cgroup: fork rejected by pids controller in /kubepods/pod1": "the limit of a container, not of the node",
}


def codes(source: str, line: str) -> list[str]:
    return [one.code for one in registry.decode(source, line.encode()) if isinstance(one, Fault)]


@pytest.mark.parametrize("prefix", ["[    5.123456] ", "Feb  3 04:05:06 h kernel: ", "3,9,5123456,-;"])
@pytest.mark.parametrize(("line", "code"), [(line, code) for _, line, code in KERNEL])
def test_a_kernel_line_that_a_peer_reports_is_a_fault(prefix: str, line: str, code: str) -> None:
    assert codes("kernel-log", prefix + line) == [code]


@pytest.mark.parametrize(
    "prefix", ["[Feb 03 2026 04:05:06] [ERROR] [tid 9] ", "Feb  3 04:05:06 h nv-fabricmanager[9]: "]
)
@pytest.mark.parametrize(("line", "code"), [(line, code) for _, line, code in FABRIC])
def test_a_line_of_the_fabric_manager_that_a_peer_reports_is_a_fault(prefix: str, line: str, code: str) -> None:
    assert codes("fabric-manager-log", prefix + line) == [code]


@pytest.mark.parametrize("line", DEPARTURES)
def test_a_line_that_only_a_peer_reports_is_listed_with_the_reason(line: str) -> None:
    assert codes("kernel-log", f"[ 5.123456] {line}") == []


def test_the_agreement_on_lines_and_codes_together_is_at_least_98_percent(shared: Path) -> None:
    codes_of_peers = sum(len(catalogs.rows(shared, name)) for name in ("xid_catalog.csv", "sxid_catalog.csv"))
    departures = len(DEPARTURES) + len(catalogs.DEPARTURES)
    assert 1 - departures / (codes_of_peers + len(KERNEL) + len(FABRIC) + len(DEPARTURES)) >= catalogs.MIN_AGREEMENT
