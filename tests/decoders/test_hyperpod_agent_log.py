"""`hyperpod-agent-log`: the four shapes of an event and the instance in the log stream's name."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Clear, Fault
from tests.decoders.captures import decoded

EVENT = {"msg": "DCGM Policy Violation found ", "condition: ": "XID Error", "data: ": {"ErrNum": 79}}
MARK = {"HealthMonitoringAgentDetectionEvent": "HealthEvent"}
AT = 1_770_091_506_000


def faults() -> list[Fault]:
    return [one for one in decoded("hyperpod-agent-log", "hyperpod-agent.log") if isinstance(one, Fault)]


def enveloped(
    *messages: str, stream: str = "SagemakerHealthMonitoringAgent/workers/i-0123456789abcdef0"
) -> dict[str, Any]:
    events = [{"id": "1", "timestamp": AT, "message": message} for message in messages]
    return {"messageType": "DATA_MESSAGE", "logStream": stream, "logEvents": events}


def packed(record: dict[str, Any]) -> bytes:
    data = base64.b64encode(gzip.compress(json.dumps(record).encode())).decode()
    return json.dumps({"awslogs": {"data": data}}).encode()


def test_the_outer_time_is_used_because_the_inner_time_can_be_a_day_wrong() -> None:
    first = faults()[0]
    assert first.observed_at == datetime(2026, 2, 3, 12, 5, 6, tzinfo=UTC)
    assert first.attributes["timestamp"] == "2026-02-04T20:59:29Z"


def test_the_reason_decides_the_recommended_action() -> None:
    asked = {fault.code: (fault.severity, fault.action) for fault in faults()}
    assert asked["xid.71"] == (Severity.ERROR, Action.REBOOT_NODE)
    assert asked["xid.74"] == (Severity.FATAL, Action.REPLACE_NODE)
    assert asked["xid.31"] == (Severity.INFO, Action.RESTART_APP)
    assert asked["xid.79"] == (None, None)


def test_a_quoted_kernel_line_is_decoded_as_a_kernel_line() -> None:
    first = faults()[0]
    assert first.source == "hyperpod-agent-log"
    assert first.attributes["link"] == "6"


RECOVERY = "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from {} to {}"
NEEDED, NOT_NEEDED = "0x1 (GPU Reset Required)", "0x0 (None)"


@pytest.mark.parametrize(
    ("before", "after", "reason", "expected"),
    [
        (NEEDED, NOT_NEEDED, None, Clear),
        (NEEDED, NOT_NEEDED, "XidUserAppError", Clear),
        (NEEDED, NOT_NEEDED, "NvidiaGpuXidErrorPendingReboot", Fault),
        (NOT_NEEDED, NEEDED, None, Fault),
    ],
)
def test_a_quoted_xid_154_that_needs_no_recovery_is_a_clear_unless_the_agent_recommends_a_repair(
    before: str, after: str, reason: str | None, expected: type
) -> None:
    details = {"message": RECOVERY.format(before, after), "reason": reason}
    (found,) = registry.decode("hyperpod-agent-log", json.dumps({"msg": "x", "details": details} | MARK).encode())
    assert isinstance(found, expected)
    assert isinstance(found, Fault | Clear)
    assert (found.source, found.code, found.component.pci) == ("hyperpod-agent-log", "xid.154", "0000:c1:00")


def test_a_condition_that_is_true_is_a_fault_also_beside_a_quoted_xid_that_needs_no_recovery() -> None:
    details = {"message": RECOVERY.format(NEEDED, NOT_NEEDED), "status": "True"}
    (found,) = registry.decode("hyperpod-agent-log", json.dumps({"msg": "x", "details": details} | MARK).encode())
    assert isinstance(found, Fault)


def test_an_ended_condition_is_a_clear() -> None:
    (clear,) = (one for one in decoded("hyperpod-agent-log", "hyperpod-agent.log") if isinstance(one, Clear))
    assert clear.code == "agent.gpu_unhealthy"


@pytest.mark.parametrize("pack", [packed, lambda record: json.dumps(record).encode()])
def test_the_log_streams_name_contains_the_node(pack: Any) -> None:
    body = pack(enveloped(json.dumps(EVENT | MARK)))
    (fault,) = registry.decode("hyperpod-agent-log", body)
    assert isinstance(fault, Fault)
    assert (fault.node, fault.attributes["instance_id"]) == ("i-0123456789abcdef0", "i-0123456789abcdef0")
    assert fault.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_a_pretty_printed_event_is_one_event() -> None:
    assert len(registry.decode("hyperpod-agent-log", json.dumps(EVENT | MARK, indent=2).encode())) == 1


def test_an_envelope_without_events_has_no_faults() -> None:
    assert registry.decode("hyperpod-agent-log", packed(enveloped())) == ()
    assert registry.decode("hyperpod-agent-log", b'{"level":"info","msg":"heartbeat"}') == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[ 1.0] NVRM: Xid (PCI:0000:c1:00): 79, gone", "no_framing"),
        (b'{"awslogs": {"data": "not base64!"}}', "malformed_envelope"),
        (b'{"awslogs": {"data": "aGVsbG8="}}', "malformed_envelope"),
        (b'{"awslogs": {"data": 3}}', "wrong_shape"),
        (b'{"some": "json"}', "no_framing"),
    ],
)
def test_input_that_is_not_the_agents_log_is_rejected(body: bytes, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode("hyperpod-agent-log", body)
    assert rejected.value.reason == reason


def test_an_envelope_that_unpacks_to_gigabytes_is_rejected() -> None:
    data = base64.b64encode(gzip.compress(b" " * (64 * 1024 * 1024))).decode()
    with pytest.raises(Rejected) as rejected:
        registry.decode("hyperpod-agent-log", json.dumps({"awslogs": {"data": data}}).encode())
    assert rejected.value.reason == "too_large"
