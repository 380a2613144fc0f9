"""Errors of the command line: the exit code, the line and the advice for each exception."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import click

from faultbridge.cli.declare import EXIT_INTERNAL, EXIT_TRY_AGAIN, EXIT_UNDECODABLE, EXIT_UNREACHABLE, EXIT_USAGE
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected, Transient

USAGE_HINTS: Mapping[str, str] = {
    "alias_taken": "an alias belongs to one node only; omit it or choose another",
    "answered": "`faultbridge case show` shows the answer and the operator",
    "bad_callback": "see `faultbridge cluster set --help`",
    "bad_address": "give an https URL such as https://slurm.example:6820",
    "bad_cluster_name": "choose another name",
    "bad_host_list": "give a host list such as 'gpu-[001-004,007]'",
    "bad_instance_id": "give an EC2 instance id such as i-0123456789abcdef0",
    "bad_job": "give the job id of the scheduler",
    "bad_node_name": "choose another name",
    "bad_nodes": "name the nodes with --node",
    "bad_ranks": "see `faultbridge job start --help`",
    "bad_step": "give another step with --step",
    "bad_time": "give another time with --at",
    "bad_token": "start again without the token",
    "case_over": "`faultbridge case show` shows its resolution",
    "cluster_exists": "`faultbridge cluster set` changes it",
    "cluster_lives": "`faultbridge case list --cluster C` lists live cases; close them first",
    "foreign_part": "see `faultbridge cluster set --help`",
    "hyperpod_head_node": "give --slurm-rest URL, or --orchestrator none",
    "excluded": "end it with `faultbridge node ignore --end` or `faultbridge cluster maintain --end`",
    "in_progress": "wait, or cancel the case; `faultbridge case show` shows its progress",
    "incident_over": "`faultbridge incident list` lists the open incidents",
    "job_ended": "`faultbridge job start` records a new run",
    "job_succeeded": "`faultbridge timeline --job` shows what happened to its nodes",
    "job_runs": "`faultbridge job end` ends it",
    "no_instance": "`faultbridge node show` shows the node",
    "no_eks_cluster": "give it with --eks-cluster",
    "no_checkpoint": "`faultbridge job list` lists the jobs",
    "no_entries": "`faultbridge timeline --archive` reads a copy of the archive",
    "no_epoch_left": "deploy a new stack",
    "no_provider_repair": "docs/runbooks/provider.md has the choices",
    "no_requeue_head_node": "give it with --slurm-head-node; slurmrestd cannot requeue a job",
    "no_slurm_head_node": "give it with --slurm-head-node, or slurmrestd with --slurm-rest",
    "no_stack_id": "give --stack-id, or copy the manifests and anchors as well",
    "no_verifier": "give a verifier with --verifier",
    "no_such_part": "give a part such as 1/4 with --part",
    "node_exists": "`faultbridge node show` shows its instance",
    "node_retired": "choose another name",
    "not_acting": "`faultbridge cluster set --mode act` enables repairs",
    "not_confirmed": "answer y, or give --yes",
    "instance_changed": "`faultbridge node show` shows the instance and its state",
    "not_asked": "`faultbridge case show` shows what the case waits for",
    "not_cancellable": "`faultbridge case show` shows its status",
    "not_quarantinable": "`faultbridge node show` shows its status",
    "not_replaceable": "`faultbridge node show` shows its status",
    "not_settable": "see `faultbridge cluster set --help`",
    "not_yours": "`faultbridge cluster show` shows the pauses",
    "not_with_a_person": "`faultbridge node show` shows its case",
    "nothing_asked": "give a cluster with --cluster, or a case with --case",
    "past_intent": "wait until the repair ends; `faultbridge case show` shows its progress",
    "raw_gone": "send the record again from its source",
    "body_changed": "send the record again from its source",
    "repair_running": "`faultbridge case list --status in_progress` lists them",
    "rival_repair": "docs/runbooks/provider.md has the choices",
    "too_late": "the case is escalated to an operator; `faultbridge case show` shows it",
    "too_many": "`faultbridge silence list` lists them",
    "too_many_aliases": "give fewer aliases",
    "unknown_case": "`faultbridge case list --all` lists cases",
    "unknown_context": "`faultbridge context list` lists contexts",
    "unknown_cluster": "`faultbridge cluster list` lists clusters",
    "unknown_device": "`faultbridge node show` shows the devices of a node",
    "unknown_epoch": "omit --epoch to start a new epoch",
    "unknown_event": "`faultbridge timeline --json` shows the ids",
    "unknown_finding": "`faultbridge finding list --all` lists findings",
    "unknown_group": "check the group name, --region and --profile",
    "unknown_incident": "`faultbridge incident list --all` lists incidents",
    "unknown_job": "`faultbridge job list` lists jobs; `faultbridge job start` records a start",
    "unknown_mapping": "`faultbridge mapping show` shows the current version",
    "unknown_node": "`faultbridge node list --cluster C` lists nodes",
    "unknown_policy": "`faultbridge policy list` lists the stored versions",
    "unknown_reject": "`faultbridge reject list` lists rejected records",
    "unknown_sender": "`faultbridge webhook list` lists the senders",
}
"""Reasons that mean wrong usage (exit code 2)."""

INPUT_HINTS: Mapping[str, str] = {
    "ambiguous_format": "name the source with --source",
    "bad_node_map": 'give a JSON object such as {"gpu-1": [0, 1]}',
    "bad_trace": "docs/default-policy.md describes the format",
    "binary": "give text; decompress the file first if it is compressed",
    "empty": "give the text of a source; `faultbridge sources` lists them",
    "entity_declaration": "give the unchanged output of `nvidia-smi -q -x`",
    "malformed_json": "give the complete output of the tool",
    "malformed_xml": "give the complete output of `nvidia-smi -q -x`",
    "malformed_yaml": "give plain YAML or JSON",
    "no_framing": "`faultbridge sources` shows an example of each format",
    "no_pattern": "see the files in rules/",
    "no_rule": "see the files in rules/",
    "not_csv": "give CSV with a heading line, or one JSON object per line",
    "not_json": "give JSON",
    "not_yaml": "give YAML or JSON",
    "too_large": "split it into smaller parts",
    "unknown_format": "name the source with --source; `faultbridge sources` lists them",
    "unknown_source": "`faultbridge sources` lists them",
    "wrong_shape": "`faultbridge sources` shows an example of each format",
}
"""Reasons that mean input which cannot be decoded (exit code 65)."""


MAX_MESSAGE_CHARACTERS = 500
_EXTRA_ARGUMENTS = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)")
# Matched by name, so that this module does not load botocore.
_UNREACHABLE_ERRORS = frozenset(
    {"EndpointConnectionError", "ConnectTimeoutError", "ConnectionClosedError", "ProxyConnectionError"}
)

_UNREACHABLE_HINT = "check --region, --endpoint-url and the network; `faultbridge up` starts an embedded stack"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed command: its exit code, the problem, and a hint about what to do next."""

    exit_code: int
    message: str
    hint: str


@contextmanager
def requires_extra(name: str) -> Iterator[None]:
    """Replace the error about a module of an optional dependency by the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Misconfigured(f"not installed: {error.name}; run pip install 'faultbridge[{name}]'") from None


def failure_of(error: Exception) -> Failure:
    """Convert an exception of a command to a failure of one line of 500 characters."""
    failure = _failure(error)
    message = " ".join(failure.message.split()).removesuffix(".")
    return Failure(failure.exit_code, message[:MAX_MESSAGE_CHARACTERS] or "the command failed", failure.hint)


def _failure(error: Exception) -> Failure:
    if isinstance(error, Rejected):
        return _input_failure(error)
    if any(isinstance(one, ConnectionError) or type(one).__name__ in _UNREACHABLE_ERRORS for one in _causes(error)):
        return Failure(EXIT_UNREACHABLE, str(error), _UNREACHABLE_HINT)
    if isinstance(error, FaultbridgeError):
        return _stack_failure(error)
    if isinstance(error, click.ClickException):
        return _usage_failure(error)
    if isinstance(error, OSError):
        return _os_failure(error)
    return Failure(
        EXIT_INTERNAL, f"{type(error).__name__}: {error}", "internal error; FAULTBRIDGE_DEBUG=1 prints a traceback"
    )


def _usage_failure(error: click.ClickException) -> Failure:
    context: click.Context | None = getattr(error, "ctx", None)
    text = error.format_message().removeprefix("Invalid value: ")
    see = f"see `{context.command_path if context else 'faultbridge'} --help`"
    extra = _EXTRA_ARGUMENTS.fullmatch(text)
    if extra is None:
        return Failure(EXIT_USAGE, text, see)
    lacks_cluster = context is not None and "cluster" in context.params and context.params["cluster"] is None
    named = "name the cluster with --cluster; " if lacks_cluster else ""
    return Failure(EXIT_USAGE, f"unexpected argument: {extra[1]}", named + see)


def _os_failure(error: OSError) -> Failure:
    problem = error.strerror or str(error)
    if error.filename is None:
        return Failure(EXIT_USAGE, problem, "FAULTBRIDGE_DEBUG=1 prints a traceback")
    return Failure(EXIT_USAGE, f"{problem}: {error.filename}", "check the path")


def _input_failure(error: Rejected) -> Failure:
    message = error.detail or error.reason
    if error.reason in USAGE_HINTS:
        return Failure(EXIT_USAGE, message, USAGE_HINTS[error.reason])
    return Failure(EXIT_UNDECODABLE, message, INPUT_HINTS.get(error.reason, f"reason `{error.reason}`; fix the input"))


def _stack_failure(error: FaultbridgeError) -> Failure:
    if isinstance(error, Transient):
        return Failure(EXIT_TRY_AGAIN, str(error), "try again later")
    return Failure(EXIT_UNREACHABLE, str(error), "fix the setting or permission that is named")


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
