"""Events of CloudWatch Logs as `aws logs tail` prints them and as the console of Logs Insights exports them."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Fault
from tests.decoders.captures import SAMPLES

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
AT = datetime(2026, 2, 3, 4, 5, 6, 123000, tzinfo=UTC)
TIME = "2026-02-03T04:05:06.123000+00:00"
INSTANCE = "i-0a1b2c3d4e5f60718"
STREAMS = (INSTANCE, f"agent/workers/{INSTANCE}", "ip-10-0-0-7.ec2.internal-dataplane.tail.kernel")
MESSAGES = (
    f"[   12.500000] {XID}",
    f"<3>[   12.500000] {XID}",
    f"Feb  3 04:05:01 n1 kernel: {XID}",
    f"2026-02-03T04:05:01.000001+00:00 n1 kernel: {XID}",
    json.dumps({"log": f"kernel: {XID}"}),
    json.dumps({"host": "n1", "ident": "kernel", "message": XID}),
    f"kernel: {XID}",
    XID,
)
AGENT = {
    "level": "info",
    "ts": "2026-02-03T04:05:06Z",
    "msg": "DCGM Policy Violation found ",
    "HealthMonitoringAgentDetectionEvent": "HealthEvent",
    "condition: ": "XID error 79 detected.",
    "data: ": {"ErrNum": 79},
}


def table(*rows: tuple[str, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def faults(body: str | bytes) -> list[Fault]:
    encoded = body.encode() if isinstance(body, str) else body
    found = registry.decode(registry.recognize(encoded), encoded)
    return [one for one in found if isinstance(one, Fault)]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("stream", STREAMS)
def test_a_kernel_line_of_logs_tail_is_recognized_and_has_the_time_of_its_event(stream: str, message: str) -> None:
    (found,) = faults(f"{TIME} {stream} {message}\n")
    assert (found.code, found.observed_at) == ("xid.79", AT)


def test_a_kernel_line_after_many_other_events_of_logs_tail_is_recognized() -> None:
    other = "".join(f"{TIME} {STREAMS[0]} step {number} done\n" for number in range(300))
    assert [one.code for one in faults(f"{other}{TIME} {STREAMS[0]} [   12.500000] {XID}\n")] == ["xid.79"]


@pytest.mark.parametrize(
    "line",
    [
        f"{TIME} gpu-1 sshd[12]: Accepted publickey\n",
        f"{TIME} gpu-1 app[12]: [   12.500000] {XID}\n",
        f"{TIME} {INSTANCE} loss 3.14, step 12\n",
        f"{TIME} {INSTANCE} " + json.dumps({"log": "loss 3.14", "stream": "stdout"}) + "\n",
    ],
)
def test_a_line_of_a_program_is_not_taken_for_one_of_the_kernel(line: str) -> None:
    with pytest.raises(Rejected, match="matches no source format"):
        registry.recognize(line.encode())


@pytest.mark.parametrize("indent", [None, 2])
def test_an_event_of_the_agent_in_logs_tail_is_of_the_instance_in_its_stream(indent: int | None) -> None:
    instances = (INSTANCE, INSTANCE.replace("8", "9"))
    text = "".join(f"{TIME} Agent/workers/{one} {json.dumps(AGENT, indent=indent)}\n" for one in instances)
    assert [(one.code, one.node) for one in faults(text)] == [("xid.79", one) for one in instances]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_row_of_an_exported_table_has_its_own_time_and_instance(message: str) -> None:
    head = ("@timestamp", "@message", "@logStream")
    body = table(head, ("2026-02-03 04:05:06.123", f"{message}\nnext line", f"agent/{INSTANCE}"))
    (found,) = faults(body)
    assert (found.code, found.observed_at, found.node in {INSTANCE, "n1"}) == ("xid.79", AT, True)
    pieces = (body[at : at + 50] for at in range(0, len(body), 50))
    assert [one.code for one in registry.read_pieces("kernel-log", pieces).observations] == ["xid.79"]


@pytest.mark.parametrize("indent", [None, 2])
def test_an_agents_record_is_read_from_a_table_an_answer_and_docker(indent: int | None) -> None:
    text = json.dumps(AGENT, indent=indent)
    row = {"@timestamp": "2026-02-03 04:05:06.123", "@message": text, "@logStream": f"Agent/g/{INSTANCE}"}
    answer = {"results": [[{"field": name, "value": value} for name, value in row.items()]]}
    for body in (table(tuple(row), tuple(row.values())), json.dumps(answer)):
        assert [(one.code, one.node) for one in faults(body)] == [("xid.79", INSTANCE)]
    assert [one.code for one in faults(json.dumps({"log": f"{text}\n", "stream": "stdout"}))] == ["xid.79"]


def test_a_table_of_other_columns_or_without_its_end_is_no_table_of_events() -> None:
    for body in (b'name,text\nx,"@message"\n', b"@timestamp,@message\n2026-02-03 04:05:06.000," + b'"x' * 200_000):
        with pytest.raises(Rejected):
            registry.recognize(body)


def test_every_capture_of_the_agent_is_recognized_in_a_table() -> None:
    for path in SAMPLES.glob("hyperpod-hma__*"):
        body = table(("@timestamp", "@message"), ("2026-02-03 04:05:06.123", path.read_text("utf-8")))
        assert registry.recognize(body) == "hyperpod-agent-log", path
