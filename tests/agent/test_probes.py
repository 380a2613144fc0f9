"""Probes of programs that hang, crash, write too much, write invalid output, or are missing."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import ExitStack, suppress
from functools import partial
from threading import Thread
from urllib.error import URLError

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.node.agent import probes as probe_commands
from faultbridge.node.agent import resource_limits
from faultbridge.node.agent.child_processes import (
    MAX_OUTPUT_BYTES,
    BackgroundRead,
    ChildProcess,
    Outcome,
    ProbeResult,
    RunningProbe,
    start_process,
)
from faultbridge.node.agent.probes import (
    NVIDIA_SMI_ERRORS,
    REPEAT_FAULT_SECONDS,
    Probe,
    ProbeScheduler,
    node_probes,
    port_counters,
    probe_fault,
    scrape,
)
from faultbridge.node.agent.settings import AgentSettings
from tests.agent.builders import ScriptedProbe
from tests.agent.fakes import NOON, ManualClock, script
from tests.waiting import BUSY_FACTOR, eventually


def result_of(child: RunningProbe, seconds: float = 10) -> ProbeResult:
    deadline = time.monotonic() + seconds * BUSY_FACTOR
    while time.monotonic() < deadline:
        found = child.poll()
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("the program did not end in time")


def test_the_output_of_a_program_is_read_completely(tmp_path):
    found = result_of(
        ChildProcess([script(tmp_path, "p", "i=0; while [ $i -lt 3000 ]; do echo line$i; i=$((i+1)); done")])
    )
    assert found.outcome is Outcome.DONE
    assert found.output.decode().splitlines()[-1] == "line2999"


def test_a_program_that_writes_ten_megabytes_is_killed(tmp_path):
    child = ChildProcess([script(tmp_path, "p", "head -c 10000000 /dev/zero | tr '\\0' 'x'; sleep 60")])
    found = result_of(child)
    assert found.outcome is Outcome.OVERSIZED
    assert len(found.output) < MAX_OUTPUT_BYTES
    assert len(child._output) <= MAX_OUTPUT_BYTES + 1
    assert child._process.poll() is not None


def test_a_crash_and_a_failure_have_different_outcomes(tmp_path):
    assert result_of(ChildProcess([script(tmp_path, "p", "kill -SEGV $$")])).outcome is Outcome.CRASHED
    failed = result_of(ChildProcess([script(tmp_path, "q", "echo sorry >&2; exit 15")]))
    assert (failed.outcome, failed.error_text) == (Outcome.FAILED, "sorry")


def test_a_hanging_program_is_killed_with_its_children(tmp_path):
    held = tmp_path / "held"
    os.mkfifo(held)
    child = ChildProcess([script(tmp_path, "p", f"sleep 300 > {held} & sleep 300")])
    with held.open("rb", buffering=0) as pipe:  # waits for the child of the program
        os.set_blocking(pipe.fileno(), False)
        assert (child.poll(), pipe.read(1)) == (None, None)
        assert child.kill()
        eventually(lambda: pipe.read(1) == b"", 5)


def test_a_program_ends_even_if_its_child_holds_the_pipe(tmp_path):
    assert result_of(ChildProcess([script(tmp_path, "p", "sleep 300 & echo done")])).output == b"done\n"


def test_a_missing_program_has_the_outcome_absent(tmp_path):
    assert start_process([str(tmp_path / "nvidia-smi")]) == ProbeResult(Outcome.ABSENT)


GOOD = ProbeResult(Outcome.DONE, b"<nvidia_smi_log/>")


def records_of(scripted: ScriptedProbe, *, minutes: float, cpu=lambda: 0.0, known_errors=()) -> list[tuple[str, bytes]]:
    clock = ManualClock()
    probe = Probe("nvidia-smi", "nvidia-smi-xml", scripted.start, 60, 30, b"<", "smi", known_errors=known_errors)
    scheduler = ProbeScheduler([probe], clock, cpu)
    found = []
    for _ in range(int(minutes * 60 * 4)):
        found += scheduler.poll()
        clock.advance(0.25)
    return found


def codes(found: list[tuple[str, bytes]]) -> list[str]:
    read = [json.loads(body) for source, body in found if source == "faultbridge"]
    return [f"{one['kind']} {one['code']}" for one in read]


def test_a_hanging_probe_is_a_fault_and_is_cleared_when_it_responds():
    assert codes(records_of(ScriptedProbe(GOOD, None, None, GOOD), minutes=6)) == ["fault smi.hang", "clear smi.hang"]


def test_a_clear_states_whether_the_probe_responds_or_fails_in_another_way():
    found = records_of(ScriptedProbe(None, ProbeResult(Outcome.CRASHED), GOOD), minutes=4)
    assert codes(found) == ["fault smi.hang", "clear smi.hang", "fault smi.crash", "clear smi.crash"]
    clears = [json.loads(body) for source, body in found if source == "faultbridge"]
    assert [one["message"] for one in clears if one["kind"] == "clear"] == [
        "nvidia-smi fails in another way: smi.crash",
        "nvidia-smi responds again",
    ]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (ProbeResult(Outcome.CRASHED, b"<half"), "smi.crash"),
        (ProbeResult(Outcome.FAILED, b"Unable to determine the device handle"), "smi.failed"),
        (ProbeResult(Outcome.DONE, b"unknown output"), "smi.failed"),
        (ProbeResult(Outcome.OVERSIZED, b"xxxx"), "smi.oversize"),
    ],
)
def test_a_failed_probe_is_a_fault_and_its_output_is_not_sent(bad, code):
    found = records_of(ScriptedProbe(bad, GOOD), minutes=2.5)
    assert codes(found)[:2] == [f"fault {code}", f"clear {code}"]
    assert next(body for source, body in found if source == "nvidia-smi-xml") == GOOD.output


def test_valid_output_is_sent_despite_a_nonzero_exit_code():
    found = records_of(ScriptedProbe(ProbeResult(Outcome.FAILED, b"<nvidia_smi_log/>")), minutes=0.5)
    assert found == [("nvidia-smi-xml", b"<nvidia_smi_log/>")]


def test_a_probe_that_cannot_be_killed_is_not_started_again_and_is_reported_repeatedly():
    scripted = ScriptedProbe(None, killable=False)
    found = records_of(scripted, minutes=35)
    assert scripted.starts == 1
    assert 2 <= len(codes(found)) <= 1 + 35 * 60 / REPEAT_FAULT_SECONDS


def test_an_expensive_probe_runs_less_often():
    cheap, expensive = ScriptedProbe(), ScriptedProbe()
    records_of(cheap, minutes=20)
    used = iter(range(10**6))
    records_of(expensive, minutes=20, cpu=lambda: next(used) * 1.0)
    assert cheap.starts >= 19
    assert expensive.starts <= 7


def test_the_most_expensive_probe_runs_once_in_ten_intervals():
    expensive, used = ScriptedProbe(), iter(range(10**6))
    records_of(expensive, minutes=21, cpu=lambda: next(used) * 1e6)
    assert expensive.starts == 3


def test_a_missing_program_is_no_fault():
    assert records_of(ScriptedProbe(*[ProbeResult(Outcome.ABSENT)] * 9), minutes=20) == []


def test_a_program_that_was_missing_is_run_again_after_ten_minutes():
    results = ProbeResult(Outcome.ABSENT), GOOD
    assert records_of(ScriptedProbe(*results), minutes=9.9) == []
    assert records_of(ScriptedProbe(*results), minutes=10.1) == [("nvidia-smi-xml", GOOD.output)]


def test_two_probes_never_run_at_once():
    clock, first, second = ManualClock(), ScriptedProbe(None), ScriptedProbe()
    both = [Probe("a", "a", first.start, 60), Probe("b", "b", second.start, 60)]
    scheduler = ProbeScheduler(both, clock, lambda: 0.0)
    for _ in range(40):
        list(scheduler.poll())
        clock.advance(0.25)
    assert (first.starts, second.starts) == (1, 0)


def test_port_counters_are_read_with_their_paths(tmp_path):
    port = tmp_path / "mlx5_0" / "ports" / "1"
    (port / "counters").mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "counters" / "link_downed").write_text("2\n")
    assert port_counters(tmp_path).decode().splitlines() == [
        f"{port}/state: 4: ACTIVE",
        f"{port}/counters/link_downed: 2",
    ]


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost.example.com/metrics",
        "http://127.0.0.1.example.com:9400/metrics",
        "http://localhost:9400@example.com/metrics",
        "https://127.0.0.1:9400/metrics",
        "file://localhost/etc/hostname",
        "http://[::1/metrics",
    ],
)
def test_an_exporter_on_another_host_is_refused(url):
    with pytest.raises(ValueError, match="not on this host"):
        scrape(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_an_exporter_that_does_not_run_on_this_host_is_absent(host):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://{host}:{unused.getsockname()[1]}/metrics"
        with pytest.raises(FileNotFoundError):
            scrape(url)


class ManualTime:
    """A monotonic clock with given times; the last one repeats."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)

    def monotonic(self) -> float:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


@pytest.fixture
def exporter():
    """Start an exporter on this host that answers a connection with the given bytes, and then leaves it open."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as connections:

        def answer(content: bytes) -> None:
            connection, _ = server.accept()
            connections.enter_context(connection)
            with suppress(OSError):
                connection.sendall(content)

        def start(content: bytes) -> str:
            Thread(target=answer, args=(content,), daemon=True).start()
            return f"http://127.0.0.1:{server.getsockname()[1]}/metrics"

        yield start


def test_a_page_of_an_exporter_above_two_megabytes_is_too_large(exporter):
    url = exporter(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * (MAX_OUTPUT_BYTES + 1))
    found = result_of(BackgroundRead(partial(scrape, url)))
    assert (found.outcome, len(found.output)) == (Outcome.OVERSIZED, MAX_OUTPUT_BYTES)


@pytest.mark.parametrize("content", [b"", b"HTTP/1.0 200 OK\r\n\r\nDCGM_FI_DEV_XID_ERRORS 79\n"])
def test_an_exporter_whose_page_does_not_end_hangs(exporter, monkeypatch, content):
    monkeypatch.setattr(probe_commands, "EXPORTER_TIMEOUT_SECONDS", 0.1)
    found = result_of(BackgroundRead(partial(scrape, exporter(content))))
    assert (found.outcome, found.output) == (Outcome.HUNG, b"")


@pytest.mark.parametrize(
    "content", [b"no status line\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"]
)
def test_a_response_that_is_not_http_is_a_failed_probe_and_not_a_hanging_one(exporter, content):
    found = result_of(BackgroundRead(partial(scrape, exporter(content))))
    assert found.outcome is Outcome.FAILED
    assert found.error_text.startswith("the exporter's response is not valid HTTP")


def test_an_exporter_that_sends_its_page_slowly_hangs(exporter, monkeypatch):
    monkeypatch.setattr(probe_commands, "time", ManualTime(0, probe_commands.EXPORTER_TIMEOUT_SECONDS + 1))
    found = result_of(BackgroundRead(partial(scrape, exporter(b"HTTP/1.0 200 OK\r\n\r\nDCGM"))))
    assert found.outcome is Outcome.HUNG
    assert found.error_text.startswith("the page is not complete after 5 s")


def test_an_exporter_to_which_no_connection_is_made_in_time_hangs(monkeypatch):
    def time_out(*_: object, **__: object) -> None:
        raise URLError(TimeoutError("timed out"))

    monkeypatch.setattr(probe_commands.urllib.request, "urlopen", time_out)
    found = result_of(BackgroundRead(partial(scrape, "http://127.0.0.1:9400/metrics")))
    assert (found.outcome, found.error_text) == (Outcome.HUNG, "timed out")


@pytest.mark.parametrize(("probes", "exporter"), [(30, 5), (2, 2)])
def test_an_exporter_has_no_more_than_five_seconds(probes, exporter):
    settings = AgentSettings(cluster="train-a", queue_url="https://sqs", probe_timeout_seconds=probes)
    timeouts = {probe.name: probe.timeout_seconds for probe in node_probes(settings)}
    assert (timeouts["exporter"], timeouts["ip link"]) == (exporter, probes)


def test_the_cpu_budget_pauses_until_the_average_is_below_its_share():
    budget = resource_limits.CpuBudget(started_at=0, used_at_start=0, share=0.01, burst=1)
    assert budget.pause(10, 1.05) == 0
    assert budget.pause(10, 1.12) == pytest.approx(2)
    assert budget.pause(10, 100) == resource_limits.MAX_PAUSE_SECONDS


def test_lower_priority_sets_the_nice_value(tmp_path):
    program = (
        "import os; from faultbridge.node.agent import resource_limits as r; r.lower_priority(); print(os.nice(0))"
    )
    import sys

    found = result_of(ChildProcess([sys.executable, "-c", program]), 20)
    assert int(found.output) == resource_limits.NICENESS


def test_a_real_hanging_program_is_reported_within_its_timeout(tmp_path):
    class RealTimeClock(ManualClock):
        def monotonic(self) -> float:
            return time.monotonic()

    hang = Probe("nvidia-smi", "x", partial(start_process, [script(tmp_path, "p", "sleep 300")]), 60, 1, b"<", "smi")
    scheduler, found = ProbeScheduler([hang], RealTimeClock(), lambda: 0.0), []
    deadline = time.monotonic() + 5 * BUSY_FACTOR
    while not found and time.monotonic() < deadline:
        found += scheduler.poll()
        time.sleep(0.05)
    assert codes(found) == ["fault smi.hang"]


@pytest.mark.parametrize("family", ["smi", "agent"])
@pytest.mark.parametrize("outcome", [Outcome.HUNG, Outcome.CRASHED, Outcome.FAILED, Outcome.OVERSIZED])
def test_the_catalog_decides_severity_and_action_of_a_probe_fault(family, outcome):
    fault = json.loads(probe_fault("a probe", family, ProbeResult(outcome), at=NOON, seconds=30))
    assert load_catalog().rows[fault["code"]].mode.startswith("sensor.")
    assert not {"severity", "action"} & fault.keys()
    assert fault["code"] != "agent.flood"  # reserved for a record with too many faults


def test_the_output_of_nvidia_smi_is_sent_also_after_a_warning_about_an_inforom():
    output = b"WARNING: infoROM is corrupted at gpu 0000:C1:00.0\n" + GOOD.output
    found = records_of(ScriptedProbe(ProbeResult(Outcome.FAILED, output)), minutes=0.5, known_errors=NVIDIA_SMI_ERRORS)
    assert found == [("nvidia-smi-xml", output)]


@pytest.mark.parametrize("text", NVIDIA_SMI_ERRORS)
def test_a_known_error_of_nvidia_smi_is_sent_as_its_record(text):
    output = text + b" 0000:C1:00.0: GPU is lost.  Reboot the system to recover this GPU"
    if text.endswith(b"Driver"):
        output = text + b"/library version mismatch"
    found = records_of(
        ScriptedProbe(ProbeResult(Outcome.FAILED, output), GOOD), minutes=2.5, known_errors=NVIDIA_SMI_ERRORS
    )
    assert found[0] == ("nvidia-smi-xml", output)
    assert codes(found) == []
    (snapshot,) = registry.decode("nvidia-smi-xml", output)
    assert snapshot.present
