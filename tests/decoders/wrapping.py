"""Known records inside every combination of wrapper, prefix, joint and noise that collectors produce."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

RECORDS: dict[str, str] = {
    "xid.79": "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    "xid.46": "NVRM: Xid (PCI:0000:3f:00): 46",
    "xid.48": "NVRM: Xid (PCI:0008:06:00 GPU-I:04): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit",
    "sxid.20034": "nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "host.gpu_init_failed": "NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
    "host.pcie_fatal": "pcieport 0000:40:01.1: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link",
    "net.efa_error": "infiniband rdmap0s6: Wait for completion (polling) timeout",
    "net.nic_unhealthy": "mlx5_core 0000:5e:00.0: poll_health:739:(pid 0): device's health compromised - miss count",
    "host.disk_io_error": "blk_update_request: I/O error, dev nvme1n1, sector 7814037 op 0x0:(READ)",
    "host.kernel_panic": "Kernel panic - not syncing: Fatal exception in interrupt",
    "host.out_of_memory": "Out of memory: Killed process 4242 (python3) total-vm:1024kB, anon-rss:512kB",
    "host.memory_uncorrected": "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
}
PREFIXES = (
    "", " ", "\t  ", "[ 8123.617543] ", "[ 8123.617543]    ", "[ 8123.617543][ T1234] ", "[    0.617543][    C3]  ",
    "<3>[ 8123.617543] ", "<3>", "3,1,8123617543,-;", "3,1,8123617543,-; ", "3,1,8123617543,-,caller=T1;", "-; ",
    "kernel: ", "kernel[0]: ", "kernel:", "kernel:   ", "MESSAGE=kernel: [8123.6] ", "kernel: kernel: ",
    "kern  :err   : [ 8123.617543] ", "kern  :err   : 2026-02-03T04:05:06,502716+00:00 ",
    "Feb  3 04:05:06 ip-10-0-0-7 kernel: ", "Feb  3 04:05:06 ip-10-0-0-7 kernel: [ 8123.617543] ",
    "Feb 03 04:05:06.123456 ip-10-0-0-7 kernel[0]: ", "<3>Feb  3 04:05:06 ip-10-0-0-7 kernel: ",
    "2026-02-03T04:05:06.5+00:00 ip-10-0-0-7 kernel: ", "2026-02-03T04:05:06+0000 ip-10-0-0-7 kernel: ",
    "Tue 2026-02-03 04:05:06 UTC ip-10-0-0-7 kernel: ", "1770091506.123456 ip-10-0-0-7 kernel: ",
    "[ 8123.617543] ip-10-0-0-7 kernel: ", "2026-02-03 04:05:06 ip-10-0-0-7 kernel: ",
    "<3>1 2026-02-03T04:05:06Z ip-10-0-0-7 kernel - - - ", "[Tue Feb  3 04:05:06 2026] ", "[Feb 3 04:05] ",
    "[  +0.000123] ", "[ 8123.617543 <    0.000123>] ", "[Di Mär  3 04:05:06 2026] ",
    "2026-02-03T04:05:06.123456789Z stderr F ", "2026-02-03T04:05:06.123456789Z stdout F [ 8123.617543] ",
    "[pod/dmesg-x7k2p/reader] [ 8123.617543] ", "dmesg-reader-1  | [ 8123.617543] ",
    "gpu-1 login: ", "gpu-1 login: [ 8123.617543] ", "node7: [ 8123.617543] ", "unknown-shipper>> ",
    "\x1b[32m[ 8123.617543] \x1b[0m", "\x1b[33m", "\ufeff",
    "[ 8123.617543] [ T1234] ", "[ 8123.617543] [     C3] ", "[Tue Feb  3 04:05:06 2026] [  T1234] ",
    "2026-02-03T04:05:06,502716+00:00 [  T1234] ", "kern  :err   : [ 8123.617543] [      T1] ",
)  # fmt: skip
NOISE_BEFORE = (
    "",
    '[ 8100.000001] audit: type=1400 audit(1700000000.123:42): apparmor="ALLOWED"\n',
    "\n\n   \n",
    "\0\0\0\0\0\0\0\0",
    "[ 8100.000001] usb 1-1: new high-speed USB dev",
    "[ 8100.000002] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready\r",
)
NOISE_AFTER = (
    "",
    "\n[ 8124.000001] docker0: port 3(veth0a1b2c3) entered forwarding state\n",
    "   \r\n",
    "\0\0\0\0",
    " [ 8124.000002] audit: type=1400 audit(1700000000.123:43)",
)

# Harmless lines around a record, enough of them that the line filter learns how they start.
_HARMLESS = (
    "audit: type=1400 audit(1700000000.123:42): apparmor=ALLOWED",
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "docker0: port 3(veth0a1b2c3) entered forwarding state",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
)
PADDINGS = (
    "",
    *(
        "".join(prefix.format(8000 + number) + _HARMLESS[number % 4] + "\n" for number in range(80))
        for prefix in (
            "[{:12.6f}] ",
            "[{:12.6f}] [  T1234] ",
            "Feb  3 04:05:06 ip-10-0-0-7 kernel: ",
            "Feb  3 04:05:06 ip-10-0-0-7 kernel: [{:12.6f}] ",
            "kern  :warn  : 2026-02-03T04:05:06,502716+00:00 ",
        )
    ),
)


def _json(name: str) -> Callable[[str], bytes]:
    return lambda text: b"\n".join(json.dumps({name: line}).encode() for line in _lines(text))


def _records(**beside: object) -> Callable[[str, str], bytes]:
    return lambda name, text: b"\n".join(json.dumps({**beside, name: line}).encode() for line in _lines(text))


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _awslogs(text: str) -> bytes:
    events = [{"id": "1", "timestamp": 1770091506000 + at, "message": line} for at, line in enumerate(_lines(text))]
    packed = gzip.compress(
        json.dumps({"messageType": "DATA_MESSAGE", "logStream": "x", "logEvents": events}).encode(), 1
    )
    return json.dumps({"awslogs": {"data": base64.b64encode(packed).decode()}}).encode()


_DOCKER = {"stream": "stderr", "time": "2026-02-03T04:05:06.123456789Z"}
_JOURNAL = {
    "_TRANSPORT": "kernel",
    "_HOSTNAME": "ip-10-0-0-7",
    "__REALTIME_TIMESTAMP": "1770091506502716",
    "PRIORITY": "3",
}
_INSIGHTS = {"host": "ip-10-0-0-7", "ident": "kernel", "az": "us-east-1a"}


def _journald_bytes(text: str) -> str:
    """Return an entry a line as journald writes it if a message is not plain text."""
    return "\n".join(
        json.dumps({**_JOURNAL, "MESSAGE": list(one.encode())}, separators=(",", ":")) for one in _lines(text)
    )


def _place(line: str) -> int:
    places = [at for at in range(1, len(line)) if line[at - 1 : at + 1].isdigit()]
    return places[-1] if places else len(line) // 2


def _cut(line: str) -> bytes:
    """Return a line as a container runtime writes one that is too long, cut within its last word of digits."""
    at = _place(line)
    head = "2026-02-03T04:05:06.123456789Z stderr"
    return f"{head} P {line[:at]}\n{head} F {line[at:]}".encode()


def _cut_by_docker(line: str) -> bytes:
    """Return a line as Docker writes one that is too long, cut within its last word of digits."""
    at = _place(line)
    parts = (line[:at], f"{line[at:]}\n")
    return b"\n".join(json.dumps({"log": part, **_DOCKER}).encode() for part in parts)


def _cell(field: str, value: str) -> dict[str, str]:
    return {"field": field, "value": value}


_TAIL = "2026-02-03T04:05:06.123000+00:00 gpu/i-0a1b2c3d4e5f60718"


def _table(lines: list[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([("@timestamp", "@message"), *(("2026-02-03 04:05:06.000", line) for line in lines)])
    return text.getvalue()


def _otlp(line: str) -> dict[str, object]:
    return {"timeUnixNano": "1770091506123456789", "body": {"stringValue": line}}


WRAPPERS: dict[str, Callable[[str], bytes]] = {
    "plain": lambda text: text.encode(),
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "docker": lambda text: _records(**_DOCKER)("log", text),
    "docker-newline": lambda text: b"\n".join(
        json.dumps({**_DOCKER, "log": f"{one}\n"}).encode() for one in _lines(text)
    ),
    "fluent-bit-msg": _json("msg"),
    "fluent-bit-message": _json("message"),
    "fluent-bit-log": _json("log"),
    "kubernetes": lambda text: _records(kubernetes={"host": "ip-10-0-0-7"}, time="2026-02-03T04:05:06Z")("log", text),
    "container-insights": lambda text: _records(**_INSIGHTS)("message", text),
    "journald": lambda text: _records(**_JOURNAL)("MESSAGE", text),
    "journald-bytes": lambda text: _journald_bytes(text).encode(),
    "journald-bytes-docker": lambda text: _records(**_DOCKER)("log", _journald_bytes(text)),
    "journald-bytes-fluent-bit": lambda text: _json("message")(_journald_bytes(text)),
    "journald-bytes-container-insights": lambda text: _records(**_INSIGHTS)("message", _journald_bytes(text)),
    "journald-bytes-docker-awslogs": lambda text: _awslogs(
        _records(**_DOCKER)("log", _journald_bytes(text)).decode()
    ),
    "journald-whole": lambda text: json.dumps({**_JOURNAL, "MESSAGE": text}).encode(),
    "journald-pretty": lambda text: b"\n".join(
        json.dumps({**_JOURNAL, "MESSAGE": one}, indent=8).encode() for one in _lines(text)
    ),
    "nested-string": lambda text: b"\n".join(
        json.dumps({"log": json.dumps({"message": one})}).encode() for one in _lines(text)
    ),
    "nested-object": lambda text: b"\n".join(json.dumps({"log": {"msg": one}}).encode() for one in _lines(text)),
    "cri-json": lambda text: b"\n".join(
        b"2026-02-03T04:05:06.123Z stdout F " + json.dumps({"message": one}).encode() for one in _lines(text)
    ),
    "dmesg-json": lambda text: json.dumps(
        {"dmesg": [{"pri": 3, "time": 8123.617543, "msg": one} for one in _lines(text)]}, indent=3
    ).encode(),
    "json-array": lambda text: json.dumps([{"message": one} for one in _lines(text)]).encode(),
    "cri-parts": lambda text: b"\n".join(_cut(one) for one in _lines(text)),
    "docker-parts": lambda text: b"\n".join(_cut_by_docker(one) for one in _lines(text)),
    "console-output": lambda text: json.dumps({"InstanceId": "i-0a1b2c3d4e5f60718", "Output": text}).encode(),
    "logs-insights": lambda text: json.dumps(
        {"results": [[_cell("@timestamp", "2026-02-03 04:05:06.000"), _cell("@message", one)] for one in _lines(text)]}
    ).encode(),
    "insights-table": lambda text: _table(_lines(text)).encode(),
    "logs-tail": lambda text: "\n".join(f"{_TAIL} {one}" for one in _lines(text)).encode(),
    "otlp": lambda text: json.dumps(
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [_otlp(one) for one in _lines(text)]}]}]}
    ).encode(),
    "awslogs": _awslogs,
    "awslogs-json": lambda text: _awslogs("\n".join(json.dumps({"log": one}) for one in _lines(text))),
}  # fmt: skip


@dataclass(frozen=True)
class Combination:
    """One record in one wrapper, behind one prefix, between two pieces of noise."""

    code: str
    wrapper: str
    prefix: str
    before: str
    after: str

    def body(self, padding: str = "") -> bytes:
        """Return the record in its wrapper, with harmless lines before and after it."""
        text = f"{self.before}{self.prefix}{RECORDS[self.code]}{self.after}"
        return WRAPPERS[self.wrapper](f"{padding}{text}\n{padding}" if padding else text)


def combinations() -> Iterator[Combination]:
    """Yield all combinations that can occur: text glued to a record needs a prefix that marks its start."""
    for code, wrapper, prefix, before, after in itertools.product(
        RECORDS, WRAPPERS, PREFIXES, NOISE_BEFORE, NOISE_AFTER
    ):
        is_glued = before and before[-1] not in "\n\0\r"
        if not is_glued or _STAMP in prefix.partition("]")[0]:
            yield Combination(code, wrapper, prefix, before, after)


_STAMP = "[ 8123.617543"
