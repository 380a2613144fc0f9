"""Output and exit codes of `up`, `down` and `status`, with a replaced embedded stack."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from faultbridge import local
from faultbridge.adapters.aws.messaging import SqsQueue
from faultbridge.cli.app import run
from faultbridge.cli.commands.embedded.stack import INJECTIONS, LINK_UP, FleetFault
from faultbridge.cli.stack.session import Session
from faultbridge.decode import registry
from faultbridge.local import StackInfo, StackStatus
from faultbridge.local.stack.lifecycle import EmulatorStatus, QueueDepth
from faultbridge.model.errors import Misconfigured
from faultbridge.model.faults import Fault, Snapshot
from faultbridge.model.settings import Settings
from faultbridge.model.storage.writes import Put, Work
from faultbridge.model.times import to_text
from faultbridge.record.ports.messaging import RecordQueueDepth
from tests.builders import after
from tests.cli.builders import INFO
from tests.cli.desk import Desk

UP = StackStatus(
    stack="faultbridge",
    up=True,
    emulators=(EmulatorStatus("event-plane", 1, serving=True, endpoint="http://127.0.0.1:4566", log="x"),),
    queues=(QueueDepth("raw", "RawRecordsQueue", 3, 1, dead_letters=False),),
    executions_running=2,
    stuck=0,
)


def backlog_row(what: str, count: int = 0, seconds: int | None = None, note: str = "", *, stuck: bool = False) -> Any:
    """One row of the backlog in `status`."""
    return {"what": what, "count": count, "since": "then", "seconds": seconds, "stuck": stuck, "note": note}


BACKLOG = [
    backlog_row("unpublished", 2, 725, stuck=True),
    backlog_row("timers"),
    backlog_row("sweep", 0, 59, "had too little time"),
    backlog_row("canary", note="does not reach the table", stuck=True),
]


@pytest.fixture(autouse=True)
def no_aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)

    def no_stack(_clients: object, stack: str) -> dict[str, str]:
        raise Misconfigured(f"stack not found: {stack}")

    monkeypatch.setattr("faultbridge.adapters.aws.stack.stack_outputs", no_stack)


def test_up_prints_the_endpoints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[Any] = []

    def up(fresh: bool, progress: Any, *, stack: str) -> StackInfo:
        calls.append((fresh, stack))
        progress("deploying")
        return INFO

    monkeypatch.setattr(local, "up", up)
    assert run(["up", "--fresh", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["outputs"]["EventBusName"] == "faultbridge"
    assert err == "faultbridge: deploying\n"
    assert calls == [(True, "faultbridge")]
    assert run(["up"]) == 0
    assert "http://127.0.0.1:5000" in capsys.readouterr().out


def test_a_failed_start_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def up(*_arguments: Any, **_named: Any) -> StackInfo:
        raise Misconfigured("sam build failed; see build.log")

    monkeypatch.setattr(local, "up", up)
    assert run(["up"]) == 69
    assert capsys.readouterr().err.startswith("faultbridge: sam build failed; see build.log (")


@pytest.mark.parametrize("stopped", [True, False])
def test_down_succeeds_when_no_stack_is_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stopped: bool
) -> None:
    monkeypatch.setattr(local, "down", lambda **_named: stopped)
    assert run(["down", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"stack": "faultbridge", "stopped": stopped}


def test_status_prints_emulators_queues_and_backlog(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "stack_info", lambda stack: INFO)
    monkeypatch.setattr(local, "status", lambda **_named: UP)
    monkeypatch.setattr("faultbridge.cli.commands.embedded.stack.backlog", lambda _session: BACKLOG)
    monkeypatch.setattr("faultbridge.cli.commands.embedded.stack.reports", lambda _session: [])
    assert run(["status"]) == 0
    out = capsys.readouterr().out
    assert "event-plane http://127.0.0.1:4566 (pid 1)" in out
    assert "raw: 3 waiting, 1 in flight" in out
    assert [line[17:] for line in out.splitlines()[-4:]] == [
        "unpublished entries  2, oldest 12 min, STUCK",
        "timers due           0",
        "last sweep           59 s ago, had too little time",
        "last canary          never, STUCK, does not reach the table",
    ]
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["executions_running"] == 2


def test_status_of_a_stack_that_is_not_up_exits_with_69(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "status", lambda **_named: StackStatus(stack="faultbridge", up=False))
    assert run(["status", "--json"]) == 69
    out, err = capsys.readouterr()
    assert json.loads(out)["up"] is False
    assert "no embedded stack is up; `faultbridge up` starts one. On AWS, stack not found: faultbridge" in err
    assert run(["status", "--region", "eu-west-1"]) == 69
    out, err = capsys.readouterr()
    assert (out, "stack not found: faultbridge" in err) == ("", True)


def test_timers_due_for_five_minutes_are_counted_as_overdue(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    monkeypatch.setattr(local, "stack_info", lambda stack: INFO)
    monkeypatch.setattr(
        local, "status", lambda stack, count_overdue: StackStatus(stack=stack, up=True, stuck=count_overdue())
    )
    for number, minutes in enumerate((-60, -6, -4, 5)):
        due = Work.TIMER.row("train-a", 0, str(number), to_text(after(minutes=minutes)))
        desk.world.ports.table.write(Put({"pk": f"NODE#{number}", "sk": "STATE", **due}))
    status = desk.json("status")
    assert status["stuck"] == 2
    rows = {row["what"]: row for row in status["waiting"]}
    assert set(rows) == {"unpublished", "timers", "records", "rejects", "sweep", "canary"}
    assert (rows["timers"]["count"], rows["timers"]["seconds"], rows["timers"]["stuck"]) == (3, 3600, True)
    assert (rows["records"]["count"], rows["records"]["stuck"]) == (0, False)


def use_settings(monkeypatch: pytest.MonkeyPatch, depth: RecordQueueDepth, *names: str) -> None:
    """Let the session find a stack on AWS with these settings, and queues of this depth."""
    variables = {f"FAULTBRIDGE_{name}": name for name in ("QUEUE_URL", "DEAD_LETTER_QUEUE_URL", *names)}
    monkeypatch.setattr(Session, "settings", property(lambda _session: Settings(variables)))
    monkeypatch.setattr(SqsQueue, "depth", lambda _queue: depth)


def test_the_status_of_a_stack_on_aws_has_its_queues(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    use_settings(monkeypatch, RecordQueueDepth(7, 1, 4), "TABLE", "BUS")
    document = desk.json("status", "--region", "eu-west-1")
    assert desk.json("status")["table"] == "TABLE", "the default credentials are used, as by every other command"
    monkeypatch.setattr(local, "status", lambda **_named: UP)
    monkeypatch.setattr(local, "stack_info", lambda stack: INFO)
    assert document.keys() == desk.json("status").keys()
    assert document["queues"][0].keys() == asdict(UP)["queues"][0].keys()
    assert [one["waiting"] for one in document["queues"]] == [7, 4]


@pytest.mark.parametrize(("count", "stuck"), [(0, True), (2, False), (None, False)])
def test_the_status_of_a_stack_on_aws_says_whether_its_pages_have_a_subscriber(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, count: int | None, *, stuck: bool
) -> None:
    def confirmed(_clients: object, topic: str) -> int:
        assert topic == "URGENT_TOPIC"
        if count is None:
            raise Misconfigured("no permission")
        return count

    use_settings(monkeypatch, RecordQueueDepth(0, 0, 0), "TABLE", "BUS", "URGENT_TOPIC")
    monkeypatch.setattr("faultbridge.adapters.paging.confirmed_subscriptions", confirmed)
    rows = {row["what"]: row for row in desk.json("status", "--region", "eu-west-1")["waiting"]}
    row = rows["subscriptions"]
    assert (row["count"], row["stuck"], bool(row["note"])) == (count or 0, stuck, not count)


@pytest.mark.parametrize("fault", FleetFault)
def test_every_fault_that_can_be_injected_is_reported_as_a_fault(fault: FleetFault) -> None:
    injection = INJECTIONS[fault]
    decoded = registry.decode(injection.source, injection.record.encode())
    faults = [one for seen in decoded for one in (seen.present if isinstance(seen, Snapshot) else [seen])]
    assert [one for one in faults if isinstance(one, Fault)]


def test_a_healed_link_is_reported_as_covered_and_up() -> None:
    (snapshot, *_) = registry.decode("link-state", LINK_UP.encode())
    assert isinstance(snapshot, Snapshot)
    assert snapshot.covers
    assert not snapshot.present
