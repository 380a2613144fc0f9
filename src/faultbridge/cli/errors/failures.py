"""Convert an exception to one line of text for the user and an exit code for scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import typer

from faultbridge.cli.errors.hints import INPUT_HINTS, USAGE_HINTS
from faultbridge.errors import FaultbridgeError, Rejected, Transient

EXIT_NOT_WELL = 1
EXIT_USAGE = 2
EXIT_UNDECODABLE = 65
EXIT_UNREACHABLE = 69
EXIT_INTERNAL = 70
EXIT_TRY_AGAIN = 75
EXIT_INTERRUPTED = 130

MAX_MESSAGE_CHARACTERS = 500
_EXTRA_ARGUMENTS = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)")
# The text that pydantic, which validates values for Typer, adds before or after the description of a problem.
_PYDANTIC_TEXT = re.compile(r"Value error, |, unable to parse string as an? \w+")
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


def failure_of(error: Exception, command: str | None = None) -> Failure:
    """Convert an exception of a command to a failure; its message is one line of up to 500 characters.

    `command` is the path of the command, such as `case list`.
    """
    failure = _failure(error, command)
    message = " ".join(failure.message.split()).removesuffix(".")
    return Failure(failure.exit_code, message[:MAX_MESSAGE_CHARACTERS] or "the command failed", failure.hint)


def _failure(error: Exception, command: str | None) -> Failure:
    if isinstance(error, Rejected):
        return _input_failure(error)
    if any(isinstance(one, ConnectionError) or type(one).__name__ in _UNREACHABLE_ERRORS for one in _causes(error)):
        return Failure(EXIT_UNREACHABLE, str(error), _UNREACHABLE_HINT)
    if isinstance(error, FaultbridgeError):
        return _stack_failure(error)
    if isinstance(error, typer.TyperException):
        return _usage_failure(error, command)
    if isinstance(error, OSError):
        return _os_failure(error)
    return Failure(
        EXIT_INTERNAL, f"{type(error).__name__}: {error}", "internal error; FAULTBRIDGE_DEBUG=1 prints a traceback"
    )


def _usage_failure(error: Exception, command: str | None) -> Failure:
    text = getattr(error, "format_message", error.__str__)().removeprefix("Invalid value: ")
    see = f"see `{' '.join(filter(None, ('faultbridge', command, '--help')))}`"
    extra = _EXTRA_ARGUMENTS.fullmatch(text)
    if extra is None:
        return Failure(EXIT_USAGE, _PYDANTIC_TEXT.sub("", text), see)
    named = "name the cluster with --cluster; " if _lacks_cluster(error) else ""
    return Failure(EXIT_USAGE, f"unexpected argument: {extra[1]}", named + see)


def _lacks_cluster(error: Exception) -> bool:
    context = getattr(error, "ctx", None)
    if context is None:
        return False
    has_option = any("--cluster" in one.opts for one in context.command.params)
    return has_option and context.params.get("cluster") is None


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
