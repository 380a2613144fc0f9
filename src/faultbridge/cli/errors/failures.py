"""Maps an exception to the line that the user reads and to the exit code that a script reads."""

from __future__ import annotations

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
# Matched by name, so that this module does not load botocore.
_UNREACHABLE_ERRORS = frozenset(
    {"EndpointConnectionError", "ConnectTimeoutError", "ConnectionClosedError", "ProxyConnectionError"}
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed command: its exit code, what is wrong, and what to do next."""

    exit_code: int
    message: str
    hint: str


def failure_of(error: Exception, command: str | None = None) -> Failure:
    """Map an exception of `command` to a failure. The message is one line of at most 500 characters."""
    failure = _failure(error, command)
    message = " ".join(failure.message.split()).removesuffix(".")
    return Failure(failure.exit_code, message[:MAX_MESSAGE_CHARACTERS] or "the command failed", failure.hint)


def _failure(error: Exception, command: str | None) -> Failure:
    if isinstance(error, Rejected):
        return _input_failure(error)
    if any(isinstance(one, ConnectionError) or type(one).__name__ in _UNREACHABLE_ERRORS for one in _causes(error)):
        return Failure(EXIT_UNREACHABLE, str(error), "is the stack up? `faultbridge up` starts an embedded one")
    if isinstance(error, FaultbridgeError):
        return _stack_failure(error)
    if isinstance(error, typer.TyperException):
        text = getattr(error, "format_message", error.__str__)().removeprefix("Invalid value: ")
        text = text.replace("Value error, ", "")  # the prefix of pydantic, which checks values for Typer
        return Failure(EXIT_USAGE, text, f"see `{' '.join(filter(None, ('faultbridge', command, '--help')))}`")
    if isinstance(error, OSError):
        return Failure(EXIT_USAGE, f"{error.strerror or error}: {error.filename or 'a file'}", "check the path")
    return Failure(
        EXIT_INTERNAL, f"{type(error).__name__}: {error}", "internal error; FAULTBRIDGE_DEBUG=1 prints a traceback"
    )


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
    """Yield an exception and every exception that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
