"""Inputs designed to be slow to match, at any length."""

from __future__ import annotations

from collections.abc import Callable

from tests.decoders.captures import SAMPLES, expected

XID = b"[ 1.0] NVRM: Xid (PCI:0000:c1:00): "
# One line that yields as much as possible for as few bytes as possible.
LINES = {
    "xid": b"NVRM: Xid (0000:c1:00): 46\n",
    "xid-uptime": b"[1.1]NVRM: Xid (0000:c1:00): 46\n",
    "xid-devices": b"NVRM: Xid (%04x:c1:00): 46\n",
    "sxid": b"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal\n",
    "lost": b"NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.\n",
    "lost-devices": b"NVRM: GPU %04x:b3:00.0: GPU has fallen off the bus\n",
    "uuid": b"NVRM: GPU at PCI:%04x:9b:00: GPU-0a1b2c3d\n",
    "carrier": b"systemd-networkd[1]: a: lost carrier\n",
    "oom": b"Out of memory: Kill process 1 (a)\n",
    "pcie": b"nvme %04x:c1:00.0: PCIe Bus Error: severity=Corrected\n",
    "journal": b'{"MESSAGE":"NVRM: Xid (0000:c1:00): 46"}\n',
    "policy": b"XID error 1 detected\n",
    "fabric": b"[Feb 03 2026 04:05:06] [ERROR] [tid 1] %d\n",
    "handle": b"Unable to determine the device handle for GPU %04x:02:00.0: x\n",
    "list": b"GPU 0: a (UUID: GPU-%04x)\n",
    "outline": b"    GPU Recovery Action : Reset\n",
    "metric": b'DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="%d"} 1\n',
    "gauge": b'DCGM_FI_DEV_XID_ERRORS{gpu="%d"} 1\n',
}
HEADS = {
    "slurm-rows": (b"NODELIST STATE REASON\n", b"n%04x down* Not responding\n", b""),
    "slurm-lists": (b"NODELIST STATE REASON\n", b"n%04x-[0-99] down* x\n", b""),
    "csv-rows": (b"pci.bus_id, remapped_rows.pending\n", b"%04x:53:00.0, Yes\n", b""),
    "xml-gpus": (b"<nvidia_smi_log>", b"<gpu id='%04x:53:00.0'><power>ERR!</power></gpu>", b"</nvidia_smi_log>"),
    "xml-tags": (b"<nvidia_smi_log><gpu>", b"<a/>", b"</gpu></nvidia_smi_log>"),
    "diag": (
        b'{"DCGM Diagnostic":{"test_categories":[{"tests":[{"results":[',
        b'{"status":"Fail","warnings":["x"],"gpu_id":%d},',
        b"{}]}]}]}}",
    ),
    "links": (b"[", b'{"ifname":"e%04x","operstate":"DOWN","flags":["UP"],"master":"b"},', b"{}]"),
}  # fmt: skip
DEEP = b"".join(b" " * 4 * depth + b"A\n" for depth in range(1, 14))
PATTERNS: dict[str, Callable[[int], bytes]] = {
    "braces": lambda n: b"{" * n,
    "brackets": lambda n: b"[" * n,
    "nested": lambda n: b'{"a":' * (n // 5),
    "angles": lambda n: b"<" * n,
    "digits": lambda n: b"9" * n,
    "spaces": lambda n: b" " * (n - 1) + b"x",
    "newlines": lambda n: b"x" + b"\n" * (n - 1),
    "drivers": lambda n: b"NVRM: " * (n // 6),
    "xid-spaces": lambda n: XID + b"45," + b" " * (n - 50) + b"x",
    "xid-causes": lambda n: XID + b"45, " + b"caused by previous Xid 1 " * (n // 26),
    "xid-names": lambda n: XID + b"45, pid=1, name=" + b"x, " * (n // 3 - 20),
    "nvlink5": lambda n: XID + b"149, " + b"A" * (n - 60) + b" Fatal",
    "nvlink": lambda n: XID + b"74, " + b"NVLink link 1(0x, " * (n // 18 - 4),
    "uuid": lambda n: b"[ 1.0] NVRM: GPU at PCI:0000:9b:00: GPU-" + b"0" * 36 + b" " * (n - 80) + b"x",
    "prefixes": lambda n: b"[ 1.0] " * (n // 7),
    "mlx5": lambda n: b"mlx5_core 0000:5e:00.0: " + b"a:" * (n // 2 - 40) + b"Detected insufficient power",
    "mlx5-many": lambda n: b"mlx5_a:1:(pid 1): device's health compromisef\n" * (n // 46),
    "efa": lambda n: b"infiniband rdmap0s6: " * (n // 21 - 2) + b"Admin queue is closed",
    "task": lambda n: b"task " + b"a:1" * (n // 3 - 20) + b" blocked for more than 1s",
    "nvme": lambda n: b"nvme nvme0: I/O 1 " + b"QID 1 " * (n // 6 - 10) + b"timeout, ",
    "oom": lambda n: b"Out of memory: Kill process 1 (" + b"(" * (n - 40),
    "metric-spaces": lambda n: b"DCGM_FI_DEV_XID_ERRORS" + b" " * (n - 40) + b"x y z",
    "label-spaces": lambda n: b"DCGM_FI_DEV_XID_ERRORS{" + b" ," * (n // 2 - 20) + b"} 1",
    "label-names": lambda n: b"DCGM_FI_DEV_XID_ERRORS{" + b"a" * (n - 40) + b"} 1",
    "label-ends": lambda n: b"DCGM_FI_DEV_XID_ERRORS{" + b"} 1 " * (n // 4 - 10) + b"} x y z",
    "label-quotes": lambda n: b"DCGM_FI_DEV_XID_ERRORS{" + b'a="\\' * (n // 4 - 10) + b"} 1",
    "half-pairs": lambda n: b'{"msg":"' + b"\\ud800" * (n // 6 - 20) + b'","HealthMonitoringAgentDetectionEvent":""}',
    "outline-deep": lambda n: b"==NVSMI LOG==\nGPU 0000:53:00.0\n" + DEEP * (n // len(DEEP)),
    "outline-colons": lambda n: b"==NVSMI LOG==\n" + b"A:" * (n // 2 - 20),
    "table": lambda n: b"|   0  " + b"a" * 70 + b"| " * (n // 2 - 60),
    "table-rows": lambda n: b"| 0 a | 0000:53:00.0 Off | 1 |\n| a a a a |\n" * (n // 42),
    "commas": lambda n: b"pci.bus_id,driver_version\n" + b"," * (n - 40),
    "fabric": lambda n: b"[Feb 03 2026 04:05:06] [ERROR] [tid 1] " + b"failed " * (n // 7 - 10),
}  # fmt: skip


def sized(length: int) -> dict[str, bytes]:
    """Return each input, and each repeated sample, at about the given length."""
    found = {name: make(length)[:length] for name, make in PATTERNS.items()}
    found |= {f"line-{name}": _repeated(line, length) for name, line in LINES.items()}
    found |= {
        name: head + _repeated(one, length - len(head) - len(tail)) + tail for name, (head, one, tail) in HEADS.items()
    }
    for capture in expected(SAMPLES / "expectations.toml"):
        body = (SAMPLES / capture.file).read_bytes()
        found[f"sample-{capture.file}"] = body * (length // len(body)) if len(body) < length else body[:length]
    return found


def _repeated(line: bytes, length: int) -> bytes:
    if b"%" not in line:
        return line * (length // len(line))
    once = len(line % 0)
    return b"".join(line % (number % 4096) for number in range(length // once))
