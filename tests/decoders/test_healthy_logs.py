"""A healthy log of any length raises no fault: a seeded slice here, a million lines every night."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from faultbridge.decode import registry

LINES = (
    'kernel: [{u}] audit: type=1400 audit(1700000000.{n}:{n}): apparmor="ALLOWED" operation="open" pid={n} comm="x"',
    "kernel: [{u}] IPv6: ADDRCONF(NETDEV_CHANGE): eth{d}: link becomes ready",
    "kernel: [{u}] docker0: port {d}(veth{n:07x}) entered forwarding state",
    "kernel: [{u}] eth{d}: renamed from veth{n:07x}",
    "kernel: [{u}] EXT4-fs (nvme{d}n1p1): mounted filesystem with ordered data mode. Opts: (null)",
    "kernel: [{u}] XFS (nvme{d}n1): Ending clean mount",
    "kernel: [{u}] nvidia-nvswitch{d}: open (major=508)",
    "kernel: [{u}] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping",
    "kernel: [{u}] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05",
    "kernel: [{u}] NVRM: GPU at PCI:0000:{d:02x}:00: GPU-0a1b2c3d-0000-0000-0000-{n:012x}",
    "kernel: [{u}] mlx5_core 0000:5e:00.{d}: Port module event: module {d}, Cable plugged",
    "kernel: [{u}] mlx5_core 0000:5e:00.{d}: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link",
    "kernel: [{u}] ena 0000:00:05.0 ens5: Local page cache is disabled for less than 16 channels",
    "kernel: [{u}] ena 0000:00:05.0 ens5: Reset indication didn't turn on",
    "kernel: [{u}] pcieport 0000:00:1c.0: pciehp: Slot({d}): Card present",
    "kernel: [{u}] nvme nvme{d}: 64/0/0 default/read/poll queues",
    "kernel: [{u}] Memory cgroup out of memory: Killed process {n} (python3) total-vm:{n}kB, anon-rss:{n}kB",
    "kernel: [{u}] traps: python3[{n}] general protection fault ip:7f{n:x} sp:7ffd{n:x} error:0 in libnccl.so.2[7f+9]",
    "kernel: [{u}] python3[{n}]: segfault at 0 ip 00007f{n:08x} sp 00007ffd error 4 in libcuda.so.580[7f+1]",
    "kernel: [{u}] perf: interrupt took too long ({n} > 2500), lowering kernel.perf_event_max_sample_rate to 79000",
    "kernel: [{u}] EDAC MC{d}: Giving out device to module skx_edac controller Skylake Socket#0 IMC#{d}",
    "kernel: [{u}] mce: CPU{d}: Core temperature/speed normal",
    "kernel: [{u}] rcu: Hierarchical SRCU implementation.",
    "kernel: [{u}] Lustre: Mounted scratch-client",
    "kernel: [{u}] NFS: Registering the id_resolver key type",
    "systemd[1]: Started Session {n} of user ubuntu.",
    "systemd-networkd[811]: veth{n:07x}: Lost carrier",
    "systemd-networkd[811]: eth{d}: Gained carrier",
    "sshd[{n}]: Accepted publickey for ubuntu from 10.0.0.{d} port {n} ssh2",
    "kubelet[{n}]: I0203 04:05:06.000000 {n} status_manager.go:217] Starting to sync pod status with apiserver",
    'containerd[{n}]: time="2026-02-03T04:05:06Z" level=info msg="Container exited, error 0"',
    "node-monitor[{n}]: no Xid (79) and no SXid was found; last check of NVRM: ok",
)  # fmt: skip
CHUNK = 65536


def healthy_log(lines: int, seed: int) -> Iterator[str]:
    """Yield the lines of a healthy node's syslog."""
    source, uptime = random.Random(seed), 0.0
    for _ in range(lines):
        uptime += source.random() / 50
        line = source.choice(LINES).format(u=f"{uptime:12.6f}", n=source.randrange(1, 99999), d=source.randrange(1, 9))
        yield f"Feb  3 04:05:06 ip-10-0-0-7 {line}\n"


def found_in(lines: int, seed: int) -> tuple[int, int]:
    body = "".join(healthy_log(lines, seed)).encode()
    pieces = (body[at : at + CHUNK] for at in range(0, len(body), CHUNK))
    decoded = registry.read_pieces("kernel-log", pieces)
    return len(decoded.observations), decoded.unparsed


def test_a_healthy_log_raises_no_fault() -> None:
    assert found_in(20_000, seed=1) == (0, 0)


@pytest.mark.nightly
def test_a_million_healthy_lines_raise_no_fault() -> None:
    assert found_in(1_000_000, seed=2) == (0, 0)
