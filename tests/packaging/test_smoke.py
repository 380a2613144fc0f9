"""The smoke test stays within its bounds, prints its plan first, and cannot remove an installation."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.decode.dcgm import diag
from faultbridge.decode.registry import decode
from faultbridge.model.errors import Misconfigured
from faultbridge.model.faults import Fault
from faultbridge.node.agent.settings import AgentSettings
from infra.smoke import __main__ as command
from infra.smoke import cleanup, fleet, plan, soak, steps
from infra.smoke.run import NAME, Smoke, SmokeFailed, checked_name
from tests.contracts.aws import aws

TEMPLATE = (Path(__file__).parents[2] / "infra" / "template.yaml").read_text(encoding="utf-8")


def a_run() -> Smoke:
    """Return a run without clients, whose deadline is over."""
    return Smoke("fb-smoke-1", Clients(), deadline=0.0)


def test_a_run_costs_less_than_a_dollar_and_lasts_less_than_twenty_minutes() -> None:
    assert 0.05 < plan.cost_bound() < 1.0
    assert plan.MAX_SECONDS < 20 * 60


def test_a_day_with_forty_nodes_costs_less_than_twenty_dollars_and_its_plan_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(command.SWITCH, raising=False)
    assert command.main(["--name", "fb-smoke-1", "--hours", "24"]) == 0
    printed = capsys.readouterr().err
    assert 5 < plan.cost_bound(24) < 20
    assert f"Cost: at most {plan.cost_bound(24):.2f} USD" in printed
    assert "40 instances in the default subnets" in printed
    assert "24 hours in which 40 nodes run the agent" in printed
    assert [step.name for step in steps.SOAK_STEPS if f"  {step.name} " not in printed] == []


OUTPUTS = {
    "RawRecordsQueueUrl": "https://sqs.us-east-1.amazonaws.com/111122223333/fb-smoke-1-raw",
    "RawBucketName": "fb-smoke-1-raw-bucket",
    "IngestLogGroup": "/aws/lambda/fb-smoke-1-ingest",
    "TableName": "fb-smoke-1-Table",
}


def test_the_nodes_of_a_day_start_the_agent_with_the_settings_of_the_stack() -> None:
    smoke = Smoke("fb-smoke-1", Clients(region="us-east-1"), deadline=0.0, hours=24)
    commands = soak.agent_setup(smoke, OUTPUTS, "fb-smoke-1-artifacts-111122223333")
    started = dict(part.split("=", 2)[1:] for part in commands[-1].split() if part.startswith("--setenv="))
    given = AgentSettings.load(None, {name: one for name, one in started.items() if "AGENT" in name})
    assert (given.cluster, given.queue_url, given.bucket) == (
        "fb-smoke-1-nodes",
        OUTPUTS["RawRecordsQueueUrl"],
        OUTPUTS["RawBucketName"],
    )
    assert "python3.11 -m faultbridge.node.agent" in commands[-1]
    assert len(fleet.user_data(commands)) < 16_384 * 3 // 4, "the limit of EC2, before base64"


def test_the_scripted_dcgmi_of_a_day_is_healthy_for_the_agent_and_passes_the_verification(tmp_path: Path) -> None:
    (report, script) = json.loads(fleet.user_data(["true"]).removeprefix("#cloud-config\n"))["write_files"]
    own = tmp_path / "report.json"
    own.write_bytes(gzip.decompress(base64.b64decode(report["content"])))
    program = tmp_path / "dcgmi"
    program.write_text(script["content"].replace(report["path"], str(own)), encoding="utf-8")
    program.chmod(0o755)
    health, verified = (
        subprocess.run([program, *arguments], capture_output=True, check=True).stdout
        for arguments in (("health", "-c", "-j"), ("diag", "-r", "1", "-j"))
    )
    assert [one for one in decode("dcgm-health", health) if isinstance(one, Fault)] == []
    assert diag.read_report(verified)


def test_what_cloudwatch_counted_becomes_the_figures_of_the_cost_of_a_fleet() -> None:
    sums = {"sent": 4800.0, "received": 4900.0, "empty receives": 48000.0, "invocations": 2450.0}
    sums |= {"milliseconds": 122_500.0, "read units": 9600.0, "write units": 5760.0}
    assert soak.figures(sums, 2.0) == {
        "messages a batch": 2.0,
        "messages a node-minute": 1.0,
        "empty receives an hour": 24000.0,
        "milliseconds an invocation": 50.0,
        "read units a node-minute": 2.0,
        "write units a node-minute": 1.2,
    }
    with pytest.raises(SmokeFailed, match="no messages arrived"):
        soak.figures(sums | {"received": 0.0}, 2.0)


def test_the_metrics_of_the_queue_the_function_and_the_table_are_summed_over_all_hours() -> None:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with aws() as clients:
        smoke = Smoke("fb-smoke-1", clients, deadline=0.0, hours=3)
        for hours, number in ((1, 30.0), (2, 12.0)):
            clients.cloudwatch.put_metric_data(
                Namespace="AWS/SQS",
                MetricData=[
                    {
                        "MetricName": "NumberOfMessagesReceived",
                        "Dimensions": [{"Name": "QueueName", "Value": "fb-smoke-1-raw"}],
                        "Timestamp": now - timedelta(hours=hours),
                        "Value": number,
                    }
                ],
            )
        found = soak.counted(smoke, OUTPUTS, now - timedelta(hours=3), now)
    assert (found["received"], found["sent"]) == (42.0, 0.0)


def test_a_node_that_is_not_healthy_ends_the_day() -> None:
    nodes = [{"node": "b", "status": "degraded"}, {"node": "a", "status": "healthy"}]
    assert soak.silent_nodes(nodes) == ["b"]


def test_the_cost_bound_covers_every_alarm_of_the_template() -> None:
    (alarms,) = (charge.quantity for charge in plan.CHARGES if "alarm" in charge.name)
    assert TEMPLATE.count("Type: AWS::CloudWatch::Alarm") <= alarms


def test_the_template_declares_every_parameter_of_the_plan() -> None:
    assert [name for name in plan.PARAMETERS if f"\n  {name}:\n    Type:" not in TEMPLATE] == []


def test_without_the_switch_the_plan_is_printed_and_nothing_is_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(command.SWITCH, raising=False)
    monkeypatch.setattr(command, "Clients", None)  # any use raises TypeError
    assert command.main(["--name", "fb-smoke-1"]) == 0
    printed = capsys.readouterr().err
    assert "Nothing was done" in printed
    assert [what for what in plan.RESOURCES if what.replace("NAME", "fb-smoke-1") not in printed] == []
    assert [step.name for step in steps.STEPS if step.name not in printed] == []


@pytest.mark.parametrize(
    "name", ["faultbridge", "fb-smoke-", "fb-smoke-abcdefghijkl", "prod-fb-smoke-1", "fb-smoke-1-x"]
)
def test_a_name_that_is_not_of_a_smoke_stack_is_refused(name: str) -> None:
    with pytest.raises(Misconfigured, match=re.escape(NAME.pattern)):
        checked_name(name)


def test_a_failed_step_ends_the_run_and_everything_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Smoke) -> str:
        raise SmokeFailed("no")

    run_steps: list[str] = []
    removed: list[str] = []
    made = (
        steps.Step("first", "", fail),
        steps.Step("second", "", lambda _: run_steps.append("second") or ""),
    )
    monkeypatch.setattr(command, "STEPS", made)
    monkeypatch.setattr(command, "check_start", lambda _: None)
    monkeypatch.setattr(command, "clean_up", lambda smoke: removed.append(smoke.name) or [])
    monkeypatch.setenv(command.SWITCH, "run")
    assert command.main(["--name", "fb-smoke-1"]) == 1
    assert (run_steps, removed) == ([], ["fb-smoke-1"])


def test_a_program_error_also_leads_to_the_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []

    def broken(_: Smoke) -> str:
        raise KeyError("bug")

    monkeypatch.setattr(command, "STEPS", (steps.Step("first", "", broken),))
    monkeypatch.setattr(command, "check_start", lambda _: None)
    monkeypatch.setattr(command, "clean_up", lambda smoke: removed.append(smoke.name) or [])
    monkeypatch.setenv(command.SWITCH, "run")
    with pytest.raises(KeyError):
        command.main(["--name", "fb-smoke-1"])
    assert removed == ["fb-smoke-1"]


def test_what_cannot_be_removed_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = cleanup.Kind("table", lambda _: iter(["fb-smoke-1-Table"]), lambda *_: None)
    monkeypatch.setattr(cleanup, "KINDS", (stuck,))
    assert cleanup.clean_up(a_run()) == ["table fb-smoke-1-Table"]


def test_a_refused_removal_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    left, answers = ["role"], iter([ClientError({"Error": {"Code": "DeleteConflict"}}, "DeleteRole"), None])

    def remove(_: Smoke, found: str) -> None:
        if (error := next(answers)) is not None:
            raise error
        left.remove(found)

    monkeypatch.setattr(cleanup, "POLL_SECONDS", 0)
    monkeypatch.setattr(cleanup, "KINDS", (cleanup.Kind("role", lambda _: iter(list(left)), remove),))
    run = a_run()
    run.deadline = float("inf")
    assert cleanup.clean_up(run) == []


@pytest.mark.parametrize(
    ("arn", "listed"),
    [
        ("arn:aws:iam::111122223333:user/ops", "arn:aws:iam::111122223333:user/ops"),
        (
            "arn:aws-us-gov:sts::111122223333:assumed-role/Admin/me",
            "arn:aws-us-gov:iam::111122223333:role/Admin,arn:aws-us-gov:iam::111122223333:role/*/Admin",
        ),
    ],
)
def test_the_caller_is_listed_as_a_sender(arn: str, listed: str) -> None:
    assert steps.sender_roles(arn) == listed


@pytest.mark.parametrize("answer", ["accepted", "InternalFailure"])
def test_a_forged_event_that_is_not_denied_fails_the_step(answer: str) -> None:
    with pytest.raises(SmokeFailed, match=answer):
        steps._denied(answer)


def test_the_scripted_dcgmi_prints_a_report_that_the_verifier_reads() -> None:
    report, script = json.loads(fleet.user_data().removeprefix("#cloud-config\n"))["write_files"]
    body = gzip.decompress(base64.b64decode(report["content"]))
    assert diag.read_report(body)
    assert script["content"] == f"#!/bin/sh\ncat {report['path']}\n"
    assert len(fleet.user_data()) < 16_384 * 3 // 4, "the limit of EC2, before base64"
