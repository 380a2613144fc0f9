"""Auto-detection: no format is taken for another, wrapped or not; input that fits several sources names them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Fault, faults_of
from tests.decoders.builders import FABRIC, HEALTH, awslogs
from tests.decoders.captures import HERE, SAMPLES, Capture, expected
from tests.decoders.wrapping import WRAPPERS
from tests.loops import for_each

PLATFORM = HERE / "samples_platform"
SHARED = HERE.parents[2] / "shared" / "samples"
ALL = [
    *((SAMPLES, one) for one in expected(SAMPLES / "expectations.toml")),
    *((PLATFORM, one) for one in expected(PLATFORM / "expectations.toml")),
    *((SHARED, one) for name in ("", "_platform") for one in expected(HERE / f"expectations{name}.toml")),
]
WRAPPED = ("plain", "docker", "cri-json", "fluent-bit-msg", "nested-string", "awslogs")


def recognized(body: bytes) -> str:
    try:
        return registry.recognize(body)
    except Rejected as error:
        return f"{error.reason} {error.detail}"


@pytest.mark.slow
@for_each(
    ("wrapper", "folder", "capture"),
    [(WRAPPED[number % len(WRAPPED)], *one) for number, one in enumerate(ALL)],
    ids=[capture.file for _, capture in ALL],
)
def test_a_sample_is_recognized_as_its_source_or_not_at_all(wrapper: str, folder: Path, capture: Capture) -> None:
    """Each sample has one wrapper here; the nightly test below has all of them for each."""
    if not folder.is_dir():
        pytest.skip("the captures are not beside this checkout")
    text = (folder / capture.file).read_text("utf-8", "replace")
    found = recognized(WRAPPERS[wrapper](text))
    assert capture.source in found or found.startswith("unknown_format"), found


# The record of the wrapper says that the kernel wrote the line.
SAYS_KERNEL = {
    *("container-insights", "dmesg-json"),
    *(name for name in WRAPPERS if name.startswith("journald")),
}


@pytest.mark.nightly
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_no_sample_is_taken_for_another_format_in_any_wrapper(wrapper: str) -> None:
    wrong = {}
    for folder, capture in ALL:
        if folder.is_dir():
            text = (folder / capture.file).read_text("utf-8", "replace")
            found = recognized(WRAPPERS[wrapper](text))
            allowed = capture.source in found or found.startswith("unknown_format")
            if not allowed and not (found == "kernel-log" and wrapper in SAYS_KERNEL):
                wrong[capture.file] = found
    assert wrong == {}


def test_a_file_of_no_source_is_not_recognized_or_raises_no_fault(shared: Path) -> None:
    captures = {capture.file for folder, capture in ALL if folder == SHARED}
    rest = [path for path in (shared / "samples").iterdir() if path.name not in captures]
    assert len(rest) < len(captures) / 5
    for path in rest:
        body = path.read_bytes()
        source = recognized(body)
        if " " not in source:
            with suppress(Rejected):
                assert [fault.code for one in registry.decode(source, body) for fault in faults_of(one)] == [], path


@pytest.mark.parametrize(("source", "text"), [("dcgm-health", HEALTH), ("fabric-manager-log", FABRIC)])
def test_a_line_that_a_collector_wrapped_is_recognized_within_an_envelope(source: str, text: str) -> None:
    body = awslogs(json.dumps({"log": f"{text}\n", "stream": "stdout"}))
    plain = [fault.code for one in registry.decode(source, text.encode()) for fault in faults_of(one)]
    assert [fault.code for one in registry.decode(source, body) for fault in faults_of(one)] == plain
    assert registry.recognize(body) == source


OTHER = "step {}: fetched the layer of an image, 12 of 13 done\n"
RECORD = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU has fallen off the bus."
BY_KERNEL = (
    f"[ 8123.617543] {RECORD}\n",
    f"Feb  3 04:05:06 gpu-1 kernel: {RECORD}\n",
    f"3,9,5123456,-;{RECORD}\n",
    json.dumps({"_TRANSPORT": "kernel", "MESSAGE": RECORD}) + "\n",
    "[ 8123.617543] nvme nvme0: Disabling device after reset failure: -19\n",
)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [199, 200, 201, 700, 5000])
@pytest.mark.parametrize("line", BY_KERNEL)
def test_a_kernel_log_after_a_head_of_no_format_is_found_at_any_place(line: str, lines: int) -> None:
    head = "".join(map(OTHER.format, range(lines)))
    for body in ((head + line).encode(), (head + line + head).encode(), WRAPPERS["awslogs"](head + line)):
        assert registry.recognize(body) == "kernel-log"
        assert len([one for one in registry.decode("kernel-log", body) if isinstance(one, Fault)]) == 1


@pytest.mark.parametrize(
    "line",
    [
        f"operator: I saw `{RECORD}` yesterday\n",
        f"Feb  3 04:05:06 gpu-1 quoter[12]: {RECORD}\n",
        f"{RECORD}\n",
        "[ 8123.617543] elapsed seconds of this step\n",
        json.dumps({"ticket": 7, "text": f"[ 8123.617543] {RECORD}"}) + "\n",
        "",
    ],
)
def test_a_long_text_of_no_format_is_not_taken_for_a_kernel_log(line: str) -> None:
    assert recognized((OTHER.format(1) * 300 + line + OTHER.format(2) * 300).encode()).startswith("unknown_format")


def test_a_head_of_no_format_before_two_formats_names_both() -> None:
    head = "".join(map(OTHER.format, range(300)))
    body = head + BY_KERNEL[0] + "[Feb 03 2026 04:05:06] [ERROR] [tid 12] failed to open the device\n"
    assert recognized(body.encode()).startswith(("ambiguous_format", "kernel-log"))


MDSTAT = "Personalities : [raid1] [raid0]\nmd0 : active raid1 nvme1n1[1] nvme0n1[0]\n      937560 blocks [2/2] [UU]\n"
RDMA = [{"ifindex": 1, "ifname": "mlx5_0", "port": 1, "state": "INIT", "physical_state": "LINK_UP", "netdev": "ib0"}]
NETWORKD = "Feb  3 04:05:06 gpu-1 systemd-networkd[11]: ib6: Lost carrier\n"
JOURNAL = {"MESSAGE": "ib6: Lost carrier", "_TRANSPORT": "journal", "SYSLOG_IDENTIFIER": "systemd-networkd"}
SSHD = {"MESSAGE": "Accepted publickey", "_TRANSPORT": "syslog", "SYSLOG_IDENTIFIER": "sshd"}


@pytest.mark.parametrize(
    ("body", "source"),
    [
        (MDSTAT, "disk-health"),
        ("gpu-1 idle none\ngpu-2 down* Not responding\n", "unknown_format"),
        ("NODELIST STATE REASON\ngpu-1 idle none\n", "slurm-node"),
        ("2: ens5: <UP,LOWER_UP> mtu 9001 qdisc mq state UP mode DEFAULT\n", "link-state"),
        ("Settings for ens5:\n\tSpeed: 100000Mb/s\n\tLink detected: yes\n", "link-state"),
        ("Settings for ens5:\n\tLink detected: yes\nNIC statistics:\n     tx_timeout: 0\n", "ethtool-stats"),
        (json.dumps(RDMA), "infiniband-state"),
        ("link mlx5_0/1 state INIT physical_state LINK_UP netdev ib0\n", "infiniband-state"),
        (NETWORKD, "kernel-log"),
        (json.dumps(JOURNAL), "kernel-log"),
        (json.dumps(SSHD), "unknown_format"),
        (WRAPPERS["awslogs"]("[ 1.0] NVRM: loading").decode(), "kernel-log"),
        (WRAPPERS["awslogs"]("GET /index.html 200").decode(), "unknown_format"),
    ],
)
def test_formats_that_resemble_each_other_are_distinguished(body: str, source: str) -> None:
    assert recognized(body.encode()).startswith(source)


def test_the_ports_of_rdma_link_are_read_from_text_and_json() -> None:
    text = b"0/1: mlx5_0/1: state INIT physical_state LINK_UP netdev ib0\n"
    text += b"link mlx5_1/1 state ACTIVE physical_state LINK_UP"
    for body in (json.dumps(RDMA).encode(), text):
        found = [fault for one in registry.decode("infiniband-state", body) for fault in faults_of(one)]
        assert [(fault.code, fault.component.name) for fault in found] == [("net.ib_port_stuck", "mlx5_0")]


def test_a_large_envelope_is_recognized_as_a_whole() -> None:
    line = "[ 1.0] NVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU has fallen off the bus."
    noise = "".join(f"[ {n}.0] {hash(n) * 7919 % 10**15:x} audit\n" for n in range(20_000))
    body = WRAPPERS["awslogs"](noise + line)
    assert registry.needs_whole(body[:65536])
    assert registry.recognize(body) == "kernel-log"
    assert [one.code for one in registry.decode("kernel-log", body) if isinstance(one, Fault)] == ["xid.79"]
