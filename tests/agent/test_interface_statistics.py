"""The statistics of all interfaces are one record, and an interface without an answer hides no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from faultbridge.decode.frames.decoder import Hints
from faultbridge.decode.network import link_state
from faultbridge.node.agent.child_processes import Outcome, ProbeResult
from faultbridge.node.agent.probes import (
    TIMEOUT_SECONDS,
    InterfaceStatistics,
    Probe,
    ProbeScheduler,
    counters_with_threshold,
)
from tests.agent.fakes import ManualClock

OUTPUT = b"NIC statistics:\n     tx_timeout: 2\n     queue_0_rx_bytes: 77\n     [1]: rx_errors: 4\n"


@dataclass
class Hanging:
    """A program that never ends; the driver decides whether it can be killed."""

    killable: bool = True

    def poll(self) -> ProbeResult | None:
        return None

    def kill(self) -> bool:
        return self.killable


@dataclass
class Programs:
    """Starts programs with prepared ends by interface; the others print statistics."""

    ends: Mapping[str, ProbeResult | Hanging] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)

    def start(self, argv: Sequence[str]) -> ProbeResult | Hanging:
        assert argv[:2] == ("ethtool", "-S")
        self.started.append(argv[2])
        return self.ends.get(argv[2], ProbeResult(Outcome.DONE, OUTPUT))


def statistics_of(clock: ManualClock, programs: Programs, *interfaces: str) -> InterfaceStatistics:
    return InterfaceStatistics(interfaces, programs.start, clock.monotonic)


def result_of(statistics: InterfaceStatistics, clock: ManualClock) -> ProbeResult:
    started = statistics.start()
    for _ in range(100):
        found = started.poll()
        if found is not None:
            return found
        clock.advance(1)
    raise AssertionError("the round did not end")


def test_the_interfaces_are_one_output_that_the_decoder_reads():
    result = result_of(statistics_of(ManualClock(), Programs(), "ens5", "ens6"), ManualClock())
    assert result.outcome is Outcome.DONE
    found = link_state.decode(link_state.STATISTICS, result.output, Hints())
    assert [(one.component.name, dict(one.values)) for one in found] == [
        ("ens5", {"tx_timeout": 2, "rx_errors": 4}),
        ("ens6", {"tx_timeout": 2, "rx_errors": 4}),
    ]


def test_counters_without_a_threshold_are_not_sent():
    assert counters_with_threshold(OUTPUT) == b"NIC statistics:\n     tx_timeout: 2\n     [1]: rx_errors: 4\n"


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (ProbeResult(Outcome.FAILED, error_text="no such device"), Outcome.FAILED),
        (ProbeResult(Outcome.DONE, b"no stats available"), Outcome.FAILED),
        (ProbeResult(Outcome.CRASHED, error_text="killed by signal 9"), Outcome.CRASHED),
        (Hanging(), Outcome.HUNG),
    ],
)
def test_an_interface_that_fails_is_named_and_the_others_are_read(end, outcome):
    clock = ManualClock()
    result = result_of(statistics_of(clock, Programs({"ens6": end}), "ens5", "ens6", "ens7"), clock)
    assert (result.outcome, result.incomplete) == (outcome, True)
    assert [one.component.name for one in link_state.decode(link_state.STATISTICS, result.output, Hints())] == [
        "ens5",
        "ens7",
    ]
    assert result.error_text.startswith("ens6: ")


def test_a_program_that_cannot_be_killed_is_not_started_again():
    clock, blocked = ManualClock(), Hanging(killable=False)
    programs = Programs({"ens6": blocked})
    statistics = statistics_of(clock, programs, "ens5", "ens6")
    for _ in range(2):
        assert result_of(statistics, clock).error_text == "ens6: the process cannot be killed"
    assert programs.started == ["ens5", "ens6", "ens5"]
    blocked.killable = True
    result_of(statistics, clock)
    assert programs.started[3:] == ["ens5", "ens6"]


def test_without_the_program_the_probe_is_absent():
    programs = Programs({"ens5": ProbeResult(Outcome.ABSENT)})
    assert result_of(statistics_of(ManualClock(), programs, "ens5", "ens6"), ManualClock()).outcome is Outcome.ABSENT
    assert programs.started == ["ens5"]


@pytest.mark.parametrize("interfaces", [("ens6",), ("ens5", "ens6")])
def test_a_failure_is_a_fault_beside_the_statistics_of_the_others(interfaces):
    clock = ManualClock()
    statistics = statistics_of(clock, Programs({"ens6": ProbeResult(Outcome.FAILED, error_text="broken")}), *interfaces)
    probe = Probe("ethtool", link_state.STATISTICS, statistics.start, 60, statistics.timeout_seconds)
    scheduler = ProbeScheduler([probe], clock, lambda: 0.0)
    found = [one for _ in range(4) for one in scheduler.poll()]
    assert [source for source, _ in found] == [link_state.STATISTICS] * (len(interfaces) - 1) + ["faultbridge"]
    assert b"ens6: broken" in found[-1][1]


def test_a_round_has_time_for_every_interface():
    clock = ManualClock()
    statistics = statistics_of(clock, Programs({name: Hanging() for name in ("a", "b", "c")}), "a", "b", "c")
    result_of(statistics, clock)
    assert clock.monotonic() - ManualClock().monotonic() < statistics.timeout_seconds
    assert statistics.timeout_seconds >= 3 * TIMEOUT_SECONDS
