"""A Slurm job gets the signal that it named, in its start report or its comment; no other job is ever signaled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from faultbridge.adapters.callbacks import SlurmSignal
from faultbridge.adapters.slurm.access import Output, Scontrol
from faultbridge.adapters.slurm.rest import DESCRIPTION, Access, Answer, RestClient, SlurmRest
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.record.ports.callbacks import JobNotice

CONFIG = ClusterConfig("train-a", orchestrator="slurm")
COMMENT = "team a; faultbridge:checkpoint=USR1"


def request(signal: str | None = None, job: str = "88213") -> JobNotice:
    return JobNotice(CONFIG, job, "e-1", "{}", is_checkpoint=True, signal=signal)


class HeadNode:
    """Runs squeue and scancel; `commands` are those that change something."""

    def __init__(self, comment: str = "", code: int = 0) -> None:
        self.comment, self.code = comment, code
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str]) -> Output:
        if command[0] == "squeue":
            return Output(0, f"{self.comment}\n")
        self.commands.append(" ".join(command))
        return Output(self.code, "", "scancel: error: Kill job error" if self.code else "")


class Slurmrestd:
    """Answers as slurmrestd; `requests` are those that change something."""

    def __init__(self, comment: str = "", version: int = 42) -> None:
        self.comment, self.version = comment, version
        self.requests: list[str] = []

    def __call__(self, _: Access, method: str, path: str, body: bytes | None = None) -> Answer:
        if path == DESCRIPTION:
            return Answer(200, f'{{"/slurm/v0.0.{self.version}/node/": 1}}'.encode())
        if method != "GET":
            self.requests.append(f"{method} {path}")
        return Answer(200, json.dumps({"jobs": [{"comment": self.comment}], "errors": []}).encode())


def deliver(slurm: Any, notice: JobNotice) -> ProviderFailure | None:
    if isinstance(slurm, HeadNode):
        return SlurmSignal(lambda _: Scontrol(slurm)).deliver(notice).failure
    client = RestClient(lambda: Access("https://s", "u", "t"), slurm)
    return SlurmSignal(lambda _: SlurmRest(client)).deliver(notice).failure


@pytest.mark.parametrize(
    ("comment", "named"), [("", "USR1"), (COMMENT, None), ("faultbridge:checkpoint=SIGUSR1", None)]
)
def test_the_steps_of_a_job_get_the_signal_that_it_named(comment: str, named: str | None) -> None:
    head_node, rest = HeadNode(comment), Slurmrestd(comment)
    assert (deliver(head_node, request(named)), deliver(rest, request(named))) == (None, None)
    assert head_node.commands == ["scancel --signal=USR1 88213"]
    assert rest.requests == ["DELETE /slurm/v0.0.42/job/88213?signal=USR1&flags=FULL_STEPS_ONLY"]


@pytest.mark.parametrize("comment", ["", "checkpoint=USR1", "faultbridge:checkpoint=KILL", "faultbridge:checkpoint=9"])
def test_a_job_that_named_no_signal_or_one_without_a_handler_is_never_signaled(comment: str) -> None:
    head_node, rest = HeadNode(comment), Slurmrestd(comment)
    assert (deliver(head_node, request()), deliver(rest, request())) == (None, None)
    assert head_node.commands == rest.requests == []


def test_a_slurmrestd_that_would_also_signal_the_batch_shell_signals_nothing() -> None:
    rest = Slurmrestd(version=38)
    assert deliver(rest, request("USR1")) is ProviderFailure.PERMISSION_DENIED
    assert rest.requests == []


def test_a_failed_command_is_repeated_and_other_ids_are_none_of_slurm() -> None:
    assert deliver(HeadNode(code=1), request("USR1")) is ProviderFailure.TIMEOUT
    assert deliver(HeadNode(), request("USR1", "ml/llama")) is ProviderFailure.NOT_FOUND
