"""`bmc-events`: the listing of FreeIPMI's `ipmi-sel`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Clear, Fault, Observation

HEADING = "ID   | Date        | Time     | Name             | Type                     | Event\n"
WITH_STATE = "ID   | Date        | Time     | Name   | Type              | State    | Event\n"
WITH_BOTH = "ID | Date | Time | Name | Type | State | Event Direction | Event\n"
QUIET = (
    "1    | PostInit    | PostInit | Sensor #0        | OS Boot                  | C: boot completed\n"
    "2    | Jul-20-2025 | 10:29:49 | SEL              | Event Logging Disabled   | Log Area Reset/Cleared\n"
    "3    | Jul-20-2025 | 10:30:02 | PS2 Status       | Power Supply             | Presence detected\n"
    "4    | Jul-20-2025 | 10:31:02 | Chassis          | Physical Security        | General Chassis Intrusion\n"
)
ROW = "17   | Feb-03-2026 | 04:05:06 | {}  | {}   | {}\n"


def read(text: str) -> tuple[Observation, ...]:
    return registry.decode("bmc-events", text.encode())


@pytest.mark.parametrize(
    ("name", "kind", "event", "code"),
    [
        ("DIMM_A1", "Memory", "Uncorrectable memory error", "host.memory_uncorrected"),
        ("DIMM_A1", "Memory", "Correctable memory error", "host.memory_corrected"),
        ("PS2 Status", "Power Supply", "Power Supply Failure detected", "host.power_failed"),
        ("PS2 Status", "Power Supply", "Power Supply input lost (AC/DC)", "host.power_failed"),
        ("CPU1 Status", "Processor", "IERR", "host.machine_check"),
        ("CPU1 Status", "Processor", "Thermal Trip", "host.cooling_failed"),
        ("Fan 3", "Fan", "At or Below (<=) Lower Critical Threshold", "host.cooling_failed"),
        ("Slot 4", "Critical Interrupt", "Bus Fatal Error", "host.pcie_fatal"),
        ("Drive 0", "Drive Slot (Bay)", "Drive Fault", "host.disk_failing"),
    ],
)
@pytest.mark.parametrize("heading", [HEADING, ""])
def test_an_event_is_a_fault_with_the_time_of_the_controller(
    heading: str, name: str, kind: str, event: str, code: str
) -> None:
    text = heading + QUIET + ROW.format(name, kind, event)
    assert registry.recognize(text.encode()) == "bmc-events"
    (fault,) = read(text)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.attributes["sensor"]) == (code, name)
    assert fault.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    (separated,) = read(text.replace("|", ","))
    assert isinstance(separated, Fault)
    assert (separated.code, separated.component, separated.observed_at) == (code, fault.component, fault.observed_at)


def test_the_states_and_directions_of_the_options_are_columns_of_their_own() -> None:
    failed = "3 | PostInit | PostInit | PS2 | Power Supply | Critical | {}Power Supply Failure detected\n"
    (unset,) = read(WITH_STATE + failed.format(""))
    assert isinstance(unset, Fault)
    assert (unset.code, unset.observed_at) == ("host.power_failed", None)
    lost, found = read(
        WITH_BOTH + failed.format("Assertion Event | ") + failed.format("Deassertion Event | ").replace("3 |", "4 |", 1)
    )
    assert (type(lost), type(found)) == (Fault, Clear)
    assert lost.component == found.component  # type: ignore[union-attr]  # a fault and a clear


def test_a_listing_without_an_error_has_no_fault() -> None:
    assert read(HEADING + QUIET) == ()
    assert read(HEADING) == ()


@pytest.mark.parametrize("text", ["ID | Name | Type\n1 | PS2 | Power Supply\n", "ID,Date,Price\n1,Feb-03-2026,7\n"])
def test_another_table_is_not_taken_for_a_listing(text: str) -> None:
    with pytest.raises(Rejected):
        read(text)
    with pytest.raises(Rejected, match="unknown_format"):
        registry.recognize(text.encode())
