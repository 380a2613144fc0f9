"""Traffic: a node of a hung job stops sending, which is reported once; checkpoints and evaluation are no stops."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.node.agent.agent import build_agent
from faultbridge.node.agent.rates import gpus_near, nvlink_rates
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.node.agent.traffic import SAMPLE_SECONDS, GpuWatch, TrafficWatch, gpu_loads, read_ports
from tests.agent.fakes import FakeTransport, ManualClock

MINUTE, LIMIT = 60, 900
GB = 1_000_000_000
TRAINS = (60 * MINUTE, 20 * GB)
HUNG = (40 * MINUTE, 0)
Phase = tuple[int, int]
"""How long a part of a recording lasts, in seconds, and the bytes a second that the node sends in it."""


def replay(recording: Iterable[Phase], limit: int = LIMIT) -> list[dict[str, Any]]:
    """Return the reports of a watch about a recording, each with the seconds since its start."""
    clock, sent, found = ManualClock(), 0, list[dict[str, Any]]()
    watch, start = TrafficWatch(lambda: {"mlx5_0": (sent, 0)}, limit), clock.monotonic()
    for seconds, rate in recording:
        for _ in range(0, seconds, 10):
            clock.advance(10)
            sent += 10 * rate
            for source, body in watch.poll(clock.now(), clock.monotonic()):
                found.append(json.loads(body) | {"source": source, "after": clock.monotonic() - start})
    return found


HANGS = {
    "a rank that waits for ever": [TRAINS, HUNG],
    "a hang after a checkpoint": [TRAINS, (4 * MINUTE, 0), (30 * MINUTE, 20 * GB), HUNG],
    "a hang beside the chatter of the fabric": [TRAINS, (40 * MINUTE, 20_000)],
}

CLEAN = {
    "steady steps": [(300 * MINUTE, 20 * GB)],
    "a slow job": [(300 * MINUTE, 15_000_000)],
    "checkpoints of ten minutes": [TRAINS, (10 * MINUTE, 0)] * 6,
    "an evaluation on single nodes": [TRAINS, (12 * MINUTE, 300_000), TRAINS],
    "steps with long gradient accumulation": [(5 * MINUTE, 0), (MINUTE, 5 * GB)] * 40,
    "a start that loads data for an hour": [(60 * MINUTE, 0), TRAINS],
    "a node without work": [(600 * MINUTE, 0)],
    "a short test of the fabric": [(5 * MINUTE, 40 * GB), (300 * MINUTE, 0)],
    "a job on one node": [(600 * MINUTE, 30_000)],
    "a rolling restart": [TRAINS, (14 * MINUTE, 0), (MINUTE, 2_000_000), (14 * MINUTE, 0), TRAINS],
}


@pytest.mark.parametrize("recording", HANGS.values(), ids=HANGS)
def test_a_node_of_a_hung_job_is_reported_once_a_quarter_of_an_hour_after_its_last_data(
    recording: list[Phase],
) -> None:
    (report,) = replay(recording)
    assert (report["kind"], report["code"]) == ("fault", "train.traffic_stopped")
    hung_at = sum(seconds for seconds, _ in recording[:-1])
    assert LIMIT <= report["after"] - hung_at <= LIMIT + 2 * SAMPLE_SECONDS


@pytest.mark.parametrize("recording", CLEAN.values(), ids=CLEAN)
def test_checkpoints_evaluation_starts_and_idle_nodes_are_not_reported(recording: list[Phase]) -> None:
    assert replay(recording) == []


def test_the_report_ends_when_the_node_sends_again_and_a_second_hang_is_reported_too() -> None:
    kinds = [one["kind"] for one in replay([TRAINS, HUNG, TRAINS, HUNG])]
    assert kinds == ["fault", "clear", "fault"]


def test_with_a_limit_of_zero_nothing_is_watched() -> None:
    assert replay([TRAINS, HUNG], limit=0) == []


def test_a_driver_that_counts_from_zero_again_is_no_stop() -> None:
    clock, values = ManualClock(), iter([0, 50 * GB, 0, 50 * GB])
    watch = TrafficWatch(lambda: {"mlx5_0": (next(values), 0)}, LIMIT)
    for _ in range(4):
        clock.advance(SAMPLE_SECONDS)
        assert list(watch.poll(clock.now(), clock.monotonic())) == []


def test_the_ports_of_efa_and_of_infiniband_are_counted_in_bytes(tmp_path: Path) -> None:
    for name, value in (("efa_0/ports/1/hw_counters/tx_bytes", "100"), ("mlx5_0/ports/1/counters/port_xmit_data", "7")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"{value}\n")
    (tmp_path / "mlx5_1/ports/1/counters").mkdir(parents=True)
    assert read_ports(tmp_path) == {"efa_0": (100, 0), "mlx5_0": (7 * 4, 0)}
    assert read_ports(tmp_path / "absent") == {}


def test_the_agent_sends_the_report_and_the_catalog_knows_its_code(tmp_path: Path) -> None:
    counter = tmp_path / "class/infiniband/efa_0/ports/1/hw_counters/tx_bytes"
    counter.parent.mkdir(parents=True)
    clock, transport, sent = ManualClock(), FakeTransport(), 0
    settings = AgentSettings(
        "train-a", "https://queue", node="gpu-1", spool=tmp_path / "spool", kmsg=tmp_path / "kmsg", journal_units={},
        sysfs=tmp_path, smi_seconds=0, health_seconds=0, exporter_seconds=0, link_seconds=0, counter_seconds=0,
    )  # fmt: skip
    agent = build_agent(settings, transport, clock)
    for second in range(0, 60 * MINUTE, 30):
        sent += 30 * GB if second < 30 * MINUTE else 0
        counter.write_text(str(sent))
        clock.advance(30)
        agent.poll()
    agent.sender.flush()
    agent.sender.send_due()
    (body,) = transport.bodies("faultbridge")
    (fault,) = registry.decode("faultbridge", body)
    assert load_catalog().row(fault.code).mode == "app.no_traffic"


def test_the_heartbeat_states_what_a_port_did_while_a_job_trained_and_nothing_afterwards(tmp_path: Path) -> None:
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    for name in ("counters", "hw_counters"):
        (port / name).mkdir(parents=True)
    clock, words = ManualClock(), 0
    settings = AgentSettings(
        "train-a", "https://queue", node="gpu-1", spool=tmp_path / "spool", kmsg=tmp_path / "kmsg", journal_units={},
        sysfs=tmp_path, smi_seconds=0, health_seconds=0, exporter_seconds=0, link_seconds=0, counter_seconds=0,
    )  # fmt: skip
    agent = build_agent(settings, FakeTransport(), clock)

    def pass_seconds(seconds: int, rate: int) -> list[dict[str, Any]]:
        nonlocal words
        for _ in range(0, seconds, 30):
            words += 30 * rate // 4
            (port / "counters/port_xmit_data").write_text(str(words))
            (port / "hw_counters/out_of_sequence").write_text(str(words // (10 * GB)))
            clock.advance(30)
            agent.poll()
        body = decode_message(agent.heartbeat().text).body
        return list(json.loads(body or b"")["rates"])

    (rates,) = pass_seconds(600, 8 * GB)
    assert rates["component"] == {"type": "nic", "name": "mlx5_0"}
    assert rates["values"]["sent_bytes"] == 8 * GB
    assert 55 <= rates["values"]["lost_packets"] <= 70
    assert pass_seconds(600, 0) == []


def test_a_working_gpu_has_a_clock_and_a_pcie_link_and_nvlink_is_read_from_the_exporter(shared: Path) -> None:
    xml = (shared / "samples/nvidia-smi-xml__h100x8-v13-580.xml").read_bytes()
    loads = gpu_loads(xml.replace(b"<reserved>", b"<used>40000 MiB</used><reserved>"))
    assert {one.rates["pcie_megabytes"] for one in loads} == {16 * 3938}
    assert all(100 < one.rates["clock_mhz"] < 3000 for one in loads)
    line = b'DCGM_FI_PROF_NVLINK_%bX_BYTES{gpu="1",UUID="GPU-1",Hostname="gpu-1"} 1.5e+10\n'
    assert nvlink_rates(line % b"T" + line % b"R") == {("gpu", 1): {"nvlink_bytes": 30 * GB}}
    assert nvlink_rates(b'DCGM_FI_PROF_NVLINK_TX_BYTES{gpu="1"} 12\n') == {}


def test_a_network_card_has_the_gpus_at_its_pcie_switch(tmp_path: Path) -> None:
    bus = {
        "0000:53:00.0": "pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:00.0",
        "0000:64:00.0": "pci0000:60/0000:60:01.0",
    }
    switch = "pci0000:50/0000:50:01.0/0000:51:00.0"
    cards = {"mlx5_0": f"{switch}/0000:52:02.0", "mlx5_1": "pci0000:70/0000:70:01.0"}
    for folder, above in {f"bus/pci/devices/{one}": f"{path}/{one}" for one, path in bus.items()}.items():
        link(tmp_path / folder, tmp_path / "devices" / above)
    for name, above in cards.items():
        link(tmp_path / "class/infiniband" / name / "device", tmp_path / "devices" / above / name)
    xml = b'<gpu id="00000000:53:00.0"></gpu><gpu id="00000000:64:00.0"></gpu>'
    assert gpus_near(tmp_path, xml) == {"mlx5_0": "0"}


def link(name: Path, target: Path) -> None:
    """Make a link of sysfs to a folder of a device."""
    target.mkdir(parents=True)
    name.parent.mkdir(parents=True, exist_ok=True)
    name.symlink_to(target)


Load = tuple[int, int, int]
"""Percent of the time of one GPU with a kernel and with memory access, and of its power limit of 700 W."""
WORKS, WAITS, STANDS, READS, FREE = (100, 45, 90), (100, 0, 28), (0, 0, 18), (20, 5, 25), None


def smi(loads: Iterable[Load | None]) -> bytes:
    """Return the XML of nvidia-smi about GPUs with these loads; a GPU with None holds no memory."""
    return b"<nvidia_smi_log>%s</nvidia_smi_log>" % b"".join(
        b'<gpu id="0"><fb_memory_usage><total>81559 MiB</total><used>%d MiB</used></fb_memory_usage><utilization>'
        b"<gpu_util>%d %%</gpu_util><memory_util>%d %%</memory_util></utilization><instant_power_draw>%d.50 W<"
        b"/instant_power_draw><current_power_limit>700.00 W</current_power_limit></gpu>"
        % (70000 if load else 2, *(load or (0, 0, 0))[:2], 7 * (load or (0, 0, 10))[2])
        for load in loads
    )


def watched(recording: Iterable[tuple[int, list[Load | None]]]) -> list[dict[str, Any]]:
    """Return the reports of a watch about a synthetic recording of GPUs: minutes, and the load of each GPU in them."""
    clock, found, watch = ManualClock(), list[dict[str, Any]](), GpuWatch(LIMIT)
    for minutes, loads in recording:
        for _ in range(0, minutes, 2):
            clock.advance(2 * MINUTE)
            found += [json.loads(body) for _, body in watch.read(smi(loads), clock.now(), clock.monotonic())]
    return found


GPU_HANGS: dict[str, tuple[list[Load | None], str | None]] = {
    "seven ranks wait for the fourth": ([WAITS] * 3 + [STANDS] + [WAITS] * 4, "3"),
    "all ranks wait in a kernel": ([WAITS] * 8, None),
    "the loader of a job on two GPUs hangs": ([STANDS, STANDS, FREE], "0,1"),
}
GPU_CLEAN: dict[str, list[tuple[int, list[Load | None]]]] = {
    "steady steps": [(300, [WORKS] * 8)],
    "a checkpoint of ten minutes in each hour": [(60, [WORKS] * 8), (10, [STANDS] * 8)] * 5,
    "an evaluation on one GPU": [(60, [WORKS] * 8), (40, [WORKS] + [WAITS] * 7), (60, [WORKS] * 8)],
    "a job that ends": [(60, [WORKS] * 8), (10, [STANDS] * 8), (120, [FREE] * 8)],
    "a second job that loads its data": [(60, [WORKS] * 8), (2, [FREE] * 8), (90, [STANDS] * 8), (60, [WORKS] * 8)],
    "a slow job": [(300, [READS] * 8)],
    "a start": [(90, [STANDS] * 8), (60, [WORKS] * 8)],
    "a node without work": [(600, [FREE] * 8)],
    "steps with long loads of data": [(6, [WORKS] * 8), (12, [STANDS] * 8)] * 20,
    "an interactive session that never trained": [(300, [STANDS])],
}


@pytest.mark.parametrize(("loads", "behind"), GPU_HANGS.values(), ids=GPU_HANGS)
def test_gpus_that_stop_are_reported_with_those_that_are_behind(loads: list[Load | None], behind: str | None) -> None:
    trains = [WORKS if load else FREE for load in loads]
    reports = watched([(60, trains), (40, loads), (60, trains)])
    assert [one["kind"] for one in reports] == ["fault", "clear"]
    assert (reports[0]["code"], reports[0]["attributes"].get("behind")) == ("train.gpus_stopped", behind)
    assert load_catalog().row(reports[0]["code"]).mode == "app.gpus_stopped"


@pytest.mark.parametrize("recording", GPU_CLEAN.values(), ids=GPU_CLEAN)
def test_checkpoints_evaluation_ends_and_idle_gpus_are_not_reported(
    recording: list[tuple[int, list[Load | None]]],
) -> None:
    assert watched(recording) == []


def test_real_outputs_of_nvidia_smi_have_the_fields_that_are_watched(shared: Path) -> None:
    for name, gpus in (("h100x8-v13-580", 8), ("t4-aws-v13-595", 1), ("a100-sxm4-v12-570", 1)):
        xml = (shared / f"samples/nvidia-smi-xml__{name}.xml").read_bytes()
        held = xml.replace(b"<reserved>", b"<used>40000 MiB</used><reserved>")
        assert (len(gpu_loads(xml)), len(gpu_loads(held))) == (0, gpus)


def test_the_stop_of_traffic_names_the_gpus_behind_too() -> None:
    clock, sent = ManualClock(), 0
    watch, found = TrafficWatch(lambda: {"mlx5_0": (sent, 0)}, LIMIT), list[dict[str, Any]]()
    for second in range(0, 60 * MINUTE, 30):
        clock.advance(30)
        sent += 30 * GB if second < 30 * MINUTE else 0
        found += [json.loads(body) for _, body in watch.poll(clock.now(), clock.monotonic(), "5")]
    assert [one["attributes"]["behind"] for one in found] == ["5"]
