"""Slurm's commands: their words, their output, and the head node that runs them through SSM."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import ANY, Stubber
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.slurm.access import PAUSE, POLLS, SECONDS, Output, Scontrol, SsmHeadNode, connect
from faultbridge.adapters.slurm.orchestrator import SLURM_NAME, SlurmOrchestrator
from faultbridge.adapters.slurm.rest import SlurmJob
from faultbridge.model.cluster.config import ClusterConfig, ProviderRole
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.values import replace
from faultbridge.record.ports.orchestrator import ClusterNode
from tests.adapters.stubs import failing, stubbed
from tests.sim.fakes import START, ManualClock
from tests.slurm import SlurmInMemory

HEAD = "i-0123456789abcdef0"
COMMAND = "c" * 36
SHOWN = "NodeName=n1 State={state} ThreadsPerCore=1{reason} Comment=x\n"

RUNNING = Output(0, "7|RUNNING\n")


@dataclass
class Head:
    """A head node that returns fixed output and records its commands."""

    answers: dict[str, Output] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, command: Sequence[str]) -> Output:
        self.commands.append(tuple(command))
        return self.answers.get(" ".join(command[:2]), Output(0, ""))


@dataclass
class ByName:
    """A head node that knows these nodes, by their records."""

    records: dict[str, str]
    looked_up: list[str] = field(default_factory=list)

    def __call__(self, command: Sequence[str]) -> Output:
        self.looked_up.append(command[3])
        shown = self.records.get(command[3])
        return Output(0, shown) if shown else Output(1, f"Node {command[3]} not found")


def member(**others: Any) -> ClusterNode:
    return ClusterNode(ClusterConfig("train-a", orchestrator="slurm", slurm_head_node=HEAD, **others), "n1", "i-1")


def orchestrator(head: Head) -> SlurmOrchestrator:
    return SlurmOrchestrator(lambda _: Scontrol(head), ManualClock())


@pytest.mark.parametrize(
    "answer",
    [
        Output(1, "", "slurm_load_node error: Unable to contact slurm controller (connect failure)"),
        Output(0, ""),
        Output(0, SHOWN.format(state="IDLE", reason="").replace("n1", "n2")),
        Output(127, "", "scontrol: command not found"),
        Output(1, "Node n2 not found"),
    ],
    ids=["no controller", "nothing", "another node", "no command", "another name"],
)
def test_a_look_up_that_names_no_node_is_unknown_and_changes_nothing(answer: Output) -> None:
    head = Head({"scontrol show": answer})
    for found in (orchestrator(head).cordon(member()), orchestrator(head).uncordon(member())):
        assert (found.failure, found.no_response) == (ProviderFailure.TIMEOUT, True)
    assert {command[1] for command in head.commands} == {"show"}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE", "passed"),
        ("MIXED+DRAIN", "passed"),
        ("DOWN*", "failed"),
        ("DOWN+NOT_RESPONDING", "failed"),
        ("IDLE+NOT_RESPONDING", "failed"),
        ("idle*", "failed"),
        ("UNKNOWN", "unknown"),
        ("FUTURE", "unknown"),
    ],
)
def test_a_node_that_is_down_or_does_not_respond_is_not_ready(state: str, expected: str) -> None:
    shown = SHOWN.format(state=state, reason="")
    assert orchestrator(Head({"scontrol show": Output(0, shown)})).readiness(member()) == expected


def test_a_refusal_for_lack_of_rights_is_not_retried() -> None:
    head = Head(
        {
            "scontrol show": Output(0, SHOWN.format(state="IDLE", reason="")),
            "scontrol update": Output(1, "", "slurm_update error: Access/permission denied"),
        }
    )
    assert orchestrator(head).cordon(member()).failure is ProviderFailure.PERMISSION_DENIED


def test_a_list_of_jobs_that_cannot_be_read_is_not_an_empty_one() -> None:
    with pytest.raises(Transient):
        Scontrol(Head({"squeue --noheader": Output(0, "slurm_load_jobs error")})).jobs("n1")
    with pytest.raises(Transient):
        Scontrol(Head({"squeue --noheader": Output(1, "")})).jobs("n1")


def test_array_tasks_are_single_jobs() -> None:
    head = Head({"squeue --noheader": Output(0, "12_3|RUNNING\n15|COMPLETING\n")})
    assert Scontrol(head).jobs("n1") == (SlurmJob("12_3", "RUNNING"), SlurmJob("15", "COMPLETING"))


SUCCESSOR = ClusterNode(
    ClusterConfig("train-a", orchestrator="slurm", slurm_head_node=HEAD),
    "ip-10-0-0-5",
    "i-00000000000000008",
    host_names=("ip-10-0-0-9", "ip-10-0-0-9.ec2.internal"),
    keeps_name=False,
)


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ("NodeAddr=ip-10-0-0-9 NodeHostName=ip-10-0-0-9", True),
        ("NodeAddr=10.0.0.9 NodeHostName=q1-st-1", True),
        ("NodeAddr=ip-10-0-0-9.ec2.internal NodeHostName=q1-st-1", True),
        ("NodeAddr=10.0.0.7 NodeHostName=q1-st-1 InstanceId=i-00000000000000008", True),
        ("", True),
        ("NodeAddr=10.0.0.7 NodeHostName=ip-10-0-0-7", False),
        ("NodeAddr=10.7.7.7 NodeHostName=10.8.8.8", False),
        ("NodeAddr=10.0.0.9 NodeHostName=ip-10-0-0-9 InstanceId=i-00000000000000007", False),
        ("NodeAddr=10.0.0.9 Reason=see InstanceId=i-00000000000000008 [root@t] InstanceId=i-00000000000000007", False),
    ],
)
def test_a_record_counts_only_if_its_host_is_the_instance(fields: str, same: bool) -> None:
    shown = f"NodeName=ip-10-0-0-9 State=IDLE {fields}\n"
    head = Head({"scontrol show": Output(0, shown)})
    found = orchestrator(head).cordon(SUCCESSOR)
    assert found.ok is same
    assert same is any(command[:2] == ("scontrol", "update") for command in head.commands)


def test_a_reason_says_which_record_is_of_another_instance() -> None:
    shown = "NodeName=ip-10-0-0-9 NodeAddr=10.0.0.7 NodeHostName=ip-10-0-0-7 State=IDLE\n"
    head = ByName({"ip-10-0-0-9": shown, "ip-10-0-0-5": shown.replace("-9", "-5")})
    found = SlurmOrchestrator(lambda _: Scontrol(head), ManualClock()).cordon(SUCCESSOR)
    assert (found.failure, found.reason) == (ProviderFailure.NOT_FOUND, "ip-10-0-0-9 in Slurm is another instance")
    assert "ip-10-0-0-5" not in head.looked_up


@pytest.mark.parametrize("past", [False, True])
def test_no_job_is_requeued_after_the_deadline(past: bool) -> None:
    head = Head(
        {
            "scontrol show": Output(0, SHOWN.format(state="MIXED+DRAIN", reason=" Reason=faultbridge i-1 [root@t]")),
            "squeue --noheader": RUNNING,
        }
    )
    clock = ManualClock()
    deadline = clock.now() if past else clock.now().replace(year=START.year + 1)
    found = SlurmOrchestrator(lambda _: Scontrol(head), clock).drain(member(slurm_requeue=True), deadline)
    assert found.reason == "a job still runs: 7 (running)"
    assert (("scontrol", "requeue", "7") in head.commands) is not past


def test_the_names_of_the_host_come_before_an_alias_that_leads_to_a_former_host() -> None:
    slurm = SlurmInMemory()
    for host in ("ip-10-0-0-5", "ip-10-0-0-9"):
        slurm.join(host)
    node = replace(SUCCESSOR, aliases=("ip-10-0-0-5",))
    assert SlurmOrchestrator(lambda _: slurm, ManualClock()).cordon(node).ok
    assert slurm.changes == [("drain", "ip-10-0-0-9")]


def test_no_job_is_requeued_from_a_node_that_is_not_drained() -> None:
    head = Head({"scontrol show": Output(0, SHOWN.format(state="MIXED", reason="")), "squeue --noheader": RUNNING})
    deadline = START.replace(year=START.year + 1)
    found = orchestrator(head).drain(member(slurm_requeue=True), deadline)
    assert (found.failure, found.reason) == (ProviderFailure.TIMEOUT, "a job still runs: 7 (running)")
    assert [command[:2] for command in head.commands] == [("scontrol", "show"), ("squeue", "--noheader")]


def test_the_check_whether_a_node_is_idle_requeues_no_job() -> None:
    shown = SHOWN.format(state="MIXED+DRAIN", reason=" Reason=faultbridge i-1 [root@t]")
    head = Head({"scontrol show": Output(0, shown), "squeue --noheader": RUNNING})
    found = orchestrator(head).idle(member(slurm_requeue=True))
    assert (found.failure, found.reason) == (ProviderFailure.TIMEOUT, "a job still runs: 7 (running)")
    assert [command[:2] for command in head.commands] == [("scontrol", "show"), ("squeue", "--noheader")]


def test_a_drain_by_an_operator_keeps_its_reason_and_stays() -> None:
    head = Head({"scontrol show": Output(0, SHOWN.format(state="IDLE+DRAIN", reason=" Reason=bad fan [root@t]"))})
    assert orchestrator(head).cordon(member()).reason == "already drained: bad fan"
    assert orchestrator(head).uncordon(member()).reason == "stays drained: bad fan"
    assert {command[1] for command in head.commands} == {"show"}


@pytest.mark.parametrize("name", ["ALL", "n[1-2]", "n1,n2", "n1 State=DOWN", "-a"])
def test_a_name_that_slurm_would_expand_reaches_no_command(name: str) -> None:
    head = Head()
    for node in (replace(member(), node=name), replace(member(), keeps_name=False, host_names=(name,))):
        assert orchestrator(head).cordon(node).failure is ProviderFailure.NOT_FOUND
    assert head.commands == []


@pytest.mark.parametrize("reason", ["faultbridge no-instance", "faultbridge no-instance case CASE-1"])
def test_a_drain_of_a_node_without_an_instance_is_removed(reason: str) -> None:
    head = Head({"scontrol show": Output(0, SHOWN.format(state="IDLE+DRAIN", reason=f" Reason={reason} [root@t]"))})
    assert orchestrator(head).uncordon(replace(member(), instance_id=None)).reason == "resumed"
    assert head.commands[-1] == ("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert orchestrator(head).uncordon(member()).reason == f"stays drained: {reason}"


@given(st.text(max_size=70))
def test_a_name_that_is_one_word_for_slurm_is_one_word_for_every_shell(name: str) -> None:
    if SLURM_NAME.fullmatch(name):
        assert shlex.split(name) == [name]
        assert not set(name) & set("[],;$`'\" =")
        assert name.lower() != "all"


def test_every_word_of_a_command_is_quoted() -> None:
    command = ("scontrol", "update", "NodeName=n1", "Reason=faultbridge i-1; $(reboot) 'x'")
    with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, sending):
        sent: list[str] = []
        clients.ssm_no_retry.meta.events.register_first(
            "provide-client-params.ssm.SendCommand", lambda params, **_: sent.extend(params["Parameters"]["commands"])
        )
        sending.add_response("send_command", {"Command": {"CommandId": COMMAND}})
        pending = {"Status": "InProgress", "StatusDetails": "InProgress"}
        stub.add_response("get_command_invocation", pending)
        done = {"Status": "Failed", "StatusDetails": "Failed", "ResponseCode": 1, "StandardErrorContent": "no"}
        stub.add_response("get_command_invocation", done)
        pauses: list[float] = []
        assert SsmHeadNode(clients, HEAD, pauses.append)(command) == Output(1, "", "no")
        assert shlex.split(sent[-1]) == list(command)
        assert len(pauses) == 1


def test_a_head_node_that_gives_no_result_is_unknown() -> None:
    with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, sending):
        sending.add_response("send_command", {"Command": {"CommandId": COMMAND}})
        stub.add_response("get_command_invocation", {"Status": "TimedOut", "StatusDetails": "Undeliverable"})
        with pytest.raises(Transient, match="did not run"):
            SsmHeadNode(clients, HEAD, lambda _: None)(("scontrol", "show"))


@contextmanager
def commands_without_end(*, cancel_fails: bool = False) -> Iterator[tuple[SsmHeadNode, Stubber]]:
    """A head node on which each command is pending without end, and the stub of the calls that read its status."""
    limits = {"TimeoutSeconds": 30, "InstanceIds": [HEAD], "Parameters": ANY, "DocumentName": ANY, "Comment": ANY}
    with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, changes):
        changes.add_response("send_command", {"Command": {"CommandId": COMMAND}}, limits)
        canceled = {"CommandId": COMMAND, "InstanceIds": [HEAD]}
        if cancel_fails:
            changes.add_client_error("cancel_command", "AccessDeniedException", expected_params=canceled)
        else:
            changes.add_response("cancel_command", {}, canceled)
        yield SsmHeadNode(clients, HEAD, lambda _: None), stub


def add_pending(stub: Stubber) -> None:
    for _ in range(POLLS):
        stub.add_response("get_command_invocation", {"Status": "Pending", "StatusDetails": "Pending"})


@pytest.mark.parametrize(
    ("cancel_fails", "decision"), [(False, "slurm_command_canceled"), (True, "slurm_command_not_canceled")]
)
def test_a_command_without_a_result_is_canceled_so_that_it_does_not_run_later(
    caplog: pytest.LogCaptureFixture, *, cancel_fails: bool, decision: str
) -> None:
    caplog.set_level(logging.INFO, logger="faultbridge")
    with commands_without_end(cancel_fails=cancel_fails) as (head, stub):
        add_pending(stub)
        with pytest.raises(Transient, match="gave no result"):
            head(("scontrol", "update"))
    assert [record.message for record in caplog.records] == [decision]


def test_throttled_calls_that_send_and_cancel_a_command_are_repeated() -> None:
    pauses: list[float] = []
    with stubbed("ssm") as (clients, stub), stubbed("ssm_no_retry") as (_, changes):
        changes.add_client_error("send_command", "ThrottlingException")
        changes.add_response("send_command", {"Command": {"CommandId": COMMAND}})
        add_pending(stub)
        changes.add_client_error("cancel_command", "ThrottlingException")
        changes.add_response("cancel_command", {}, {"CommandId": COMMAND, "InstanceIds": [HEAD]})
        with pytest.raises(Transient, match="gave no result"):
            SsmHeadNode(clients, HEAD, pauses.append)(("scontrol", "update"))
    assert len(pauses) == POLLS + 2


def test_a_command_whose_status_cannot_be_read_is_canceled() -> None:
    with commands_without_end() as (head, stub):
        stub.add_client_error("get_command_invocation", "InternalServerError")
        with pytest.raises(Transient):
            head(("scontrol", "update"))


def test_a_command_that_starts_at_once_ends_before_faultbridge_gives_it_up() -> None:
    assert SECONDS < POLLS * PAUSE


def test_a_requeue_whose_response_is_lost_is_not_sent_again_by_the_client() -> None:
    requests: list[Any] = []
    lost = ReadTimeoutError(endpoint_url="https://ssm")
    with failing("ssm_no_retry", lost, requests) as clients, pytest.raises(Transient):
        SsmHeadNode(clients, HEAD)(("scontrol", "requeue", "7"))
    assert len(requests) == 1


def test_the_head_node_of_another_account_is_reached_with_its_role() -> None:
    clients, role = Clients(), ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")
    head_node = connect(clients)(ClusterConfig("train-a", slurm_head_node=HEAD, provider_role=role))
    assert isinstance(head_node, SsmHeadNode)
    assert head_node._clients is clients.for_role(role)


def test_a_cluster_without_a_head_node_cannot_be_registered_or_reached() -> None:
    with pytest.raises(Rejected, match="no_slurm_head_node"):
        ClusterConfig("train-a", orchestrator="slurm").validated()
    with stubbed("ssm") as (clients, _), pytest.raises(Misconfigured, match="--slurm-head-node"):
        connect(clients)(ClusterConfig("train-a", orchestrator="slurm"))
