"""The error name of a function that raises.

AWS: `errorType` is the name of the exception's class, and a state machine's Retry and Catch match it.
MiniStack: `Runtime.HandlerError`, whatever was raised.
Here: the name is read off the last line of the worker's traceback.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

EXECUTE = "ministack.services.lambda_svc:_execute_function"
EXECUTE_WARM = "ministack.services.lambda_svc:_execute_function_warm"

_ANY_ERROR = "Runtime.HandlerError"
# `package.module.Class: text` or a bare `Class`, as the last line of a traceback has it.
_LAST_LINE = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*)(?::|$)")


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (EXECUTE, EXECUTE_WARM)


def is_open() -> bool:
    """Whether the emulator still gives every exception one name."""
    return f'"{_ANY_ERROR}"' in inspect.getsource(patch.resolve(EXECUTE_WARM))


def apply() -> None:
    """Give each error the name of its class."""
    patch.replace(EXECUTE, _with_class_names)


def _with_class_names(execute: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def execute_function(function: dict[str, Any], event: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        result = execute(function, event)
        body = result.get("body")
        if result.get("error") and isinstance(body, dict) and body.get("errorType") == _ANY_ERROR:
            return {**result, "body": {**body, "errorType": error_name(str(result.get("log", "")))}}
        return result

    return execute_function


def error_name(log: str) -> str:
    """Return the class name in the last line of a traceback; the emulator's own word when there is no traceback."""
    if "Traceback (most recent call last)" not in log:
        return _ANY_ERROR
    # A message may have lines of its own; the class's line is the first that is not indented after the frames.
    tail = log.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]
    for line in tail:
        match = _LAST_LINE.match(line)
        if match:
            return match["name"]
    return _ANY_ERROR
