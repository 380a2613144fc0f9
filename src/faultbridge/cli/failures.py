"""Failures as people and scripts see them: one line, how to mend it, and an exit code from sysexits where one fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import typer

from faultbridge.cli.refusals import REFUSALS
from faultbridge.errors import FaultbridgeError, Rejected, Transient

EXIT_NOT_WELL = 1
EXIT_USAGE = 2
EXIT_UNDECODABLE = 65
EXIT_UNREACHABLE = 69
EXIT_INTERNAL = 70
EXIT_TRY_AGAIN = 75
EXIT_INTERRUPTED = 130

_MENDS: Mapping[str, str] = {
    "empty": "give it the text of a source; `faultbridge sources` lists them",
    "binary": "give it text; unpack it first if it is compressed",
    "too_large": "cut it into smaller pieces",
    "no_framing": "`faultbridge sources` shows an example of each format",
    "unknown_format": "name the source with --source; `faultbridge sources` lists them",
    "ambiguous_format": "name the source with --source",
    "unknown_source": "`faultbridge sources` lists them",
    "malformed_xml": "give it the whole output of `nvidia-smi -q -x`",
    "malformed_json": "give it the whole output of the tool",
    "entity_declaration": "give it the output of `nvidia-smi -q -x` as it is",
    "malformed_yaml": "give it plain YAML or JSON",
    "not_json": "give it JSON",
    "not_yaml": "give it YAML or JSON",
    "wrong_shape": "`faultbridge sources` shows an example of each format",
}
# Told by their names: this module must not load botocore to say that something else did.
_NO_ANSWER = frozenset(
    {"EndpointConnectionError", "ConnectTimeoutError", "ConnectionClosedError", "ProxyConnectionError"}
)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, how to mend it, and the exit code that says so."""

    exit_code: int
    what: str
    mend: str


def failure_of(error: Exception, command: str | None = None) -> Failure:
    """Say what an exception means to whoever called `command`; the text is cut to one line."""
    failure = _failure(error, command)
    what = " ".join(failure.what.split()).removesuffix(".")
    return Failure(failure.exit_code, what[:500] or "it failed", failure.mend)


def _failure(error: Exception, command: str | None) -> Failure:
    if isinstance(error, Rejected):
        return _of_input(error)
    if any(isinstance(one, ConnectionError) or type(one).__name__ in _NO_ANSWER for one in _causes(error)):
        return Failure(EXIT_UNREACHABLE, str(error), "is the stack up? `faultbridge up` starts an embedded one")
    if isinstance(error, FaultbridgeError):
        return _of_the_stack(error)
    if isinstance(error, typer.TyperException):
        told = getattr(error, "format_message", error.__str__)()
        return Failure(EXIT_USAGE, told, f"see `{' '.join(filter(None, ('faultbridge', command, '--help')))}`")
    if isinstance(error, OSError):
        return Failure(EXIT_USAGE, f"{error.strerror or error}: {error.filename or 'a file'}", "check the path")
    return Failure(EXIT_INTERNAL, f"{type(error).__name__}: {error}", "a bug; FAULTBRIDGE_DEBUG=1 shows where")


def _of_input(error: Rejected) -> Failure:
    what = error.detail or error.reason
    if error.reason in REFUSALS:
        return Failure(EXIT_USAGE, what, REFUSALS[error.reason])
    return Failure(EXIT_UNDECODABLE, what, _mend(error.reason))


def _of_the_stack(error: FaultbridgeError) -> Failure:
    if isinstance(error, Transient):
        return Failure(EXIT_TRY_AGAIN, str(error), "try again later")
    return Failure(EXIT_UNREACHABLE, str(error), "mend the setting or the permission that it names")


def _mend(reason: str) -> str:
    return _MENDS.get(reason, f"reason `{reason}`: this input will not be accepted as it is")


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
