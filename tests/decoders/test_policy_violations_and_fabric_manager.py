"""`dcgm-policy` and `fabric-manager-log`: violations and log records."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.decide.normalize.compare import compare
from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import CounterSample, Fault
from tests.decoders.captures import decoded


def faults(source: str, name: str) -> list[Fault]:
    return [one for one in decoded(source, name) if isinstance(one, Fault)]


def test_a_violation_has_its_own_time_and_value_and_no_gpu() -> None:
    found = faults("dcgm-policy", "dcgm-policy.txt")
    assert [one.code for one in found][-1] == "xid.79"
    assert found[0].attributes == {"dbe_error_count": "2"}
    assert found[1].observed_at == datetime(2026, 2, 3, 4, 6, 6, tzinfo=UTC)
    assert found[2].attributes == {"counter": "CRCErrorCount", "nvlink_counter_value": "104"}
    assert {one.component.index for one in found} == {None}


def test_a_start_message_without_violations_has_no_faults() -> None:
    assert registry.decode("dcgm-policy", b"Listening for violations.\n") == ()


def test_the_printed_severity_of_a_switch_error_decides() -> None:
    fatal, mild, *_ = faults("fabric-manager-log", "fabric-manager.log")
    assert (fatal.code, fatal.severity, fatal.attributes["port"]) == ("sxid.20034", Severity.FATAL, "30")
    assert (mild.severity, mild.action) == (Severity.WARNING, Action.NONE)
    assert fatal.observed_at == datetime(2026, 2, 3, 4, 5, 7, tzinfo=UTC)


def test_a_repeated_error_is_counted() -> None:
    assert [one.count for one in faults("fabric-manager-log", "fabric-manager.log")] == [1, 1, 1, 2]


@pytest.mark.parametrize("source", ["dcgm-policy", "fabric-manager-log"])
def test_other_text_is_rejected(source: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode(source, b"[INFO] all is well\n")
    assert rejected.value.reason == "no_framing"


def scrape(*values: int) -> list[CounterSample]:
    line = 'DCGM_EXP_XID_ERRORS_COUNT{{gpu="0",UUID="GPU-0a",xid="31",window_size_in_ms="300000"}} {}\n'
    body = "".join(line.format(value) for value in values).encode()
    return [one for one in registry.decode("dcgm-metrics", body) if isinstance(one, CounterSample)]


def test_a_higher_xid_count_in_the_window_is_a_fault_and_a_lower_count_is_none() -> None:
    first, second, third = scrape(1, 3, 2)
    assert [(fault.code, fault.attributes["value"]) for fault in compare(first, second)] == [("xid.31", "3")]
    assert compare(second, third) == ()


def test_a_mig_instance_without_an_xid_does_not_hide_the_gpus_xid() -> None:
    line = 'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-0a",GPU_I_ID="{}"}} {}\n'
    (sample,) = registry.decode("dcgm-metrics", (line.format(3, 79) + line.format(5, 0)).encode())
    assert isinstance(sample, CounterSample)
    assert sample.values == {"DCGM_FI_DEV_XID_ERRORS": 79}
