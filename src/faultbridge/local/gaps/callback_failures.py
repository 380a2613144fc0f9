"""A task that waits for a callback and whose function fails.

AWS: the task fails with the function's error, and the state's Retry and Catch see it.
MiniStack: the failure is swallowed, and the task waits for a callback that nobody will send until its time is up.
Here: the failure is put where the callback's own would be, and the task wakes at once.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

INVOKE = "ministack.services.stepfunctions:_invoke_with_callback"
CALL = "ministack.services.stepfunctions:_call_lambda"
TOKENS = "ministack.services.stepfunctions:_task_tokens"
ERROR = "ministack.services.stepfunctions:_ExecutionError"

_waiting = threading.local()


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (INVOKE, CALL, TOKENS, ERROR)


def is_open() -> bool:
    """Tell whether the emulator still passes over a failed call."""
    after_the_call = inspect.getsource(patch.resolve(INVOKE)).partition("_call_lambda(")[2]
    return "pass" in after_the_call.partition("except _ExecutionError:")[2].split()[:1]


def apply() -> None:
    """Let a failed call fail the task that waits for its callback."""
    patch.replace(INVOKE, _remembering)
    patch.replace(CALL, _telling)


def _remembering(invoke: Callable[..., Any]) -> Callable[..., Any]:
    def invoke_with_callback(resource: str, data: Any, token: str, state: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        _waiting.token = token
        try:
            return invoke(resource, data, token, state)
        finally:
            _waiting.token = None

    return invoke_with_callback


def _telling(call: Callable[..., Any]) -> Callable[..., Any]:
    execution_error = patch.resolve(ERROR)

    def call_lambda(reference: str, event: Any) -> Any:  # noqa: ANN401 - any JSON
        try:
            return call(reference, event)
        except execution_error as error:
            waits = patch.resolve(TOKENS).get(getattr(_waiting, "token", None))
            if waits is not None:
                waits["error"] = {"Error": error.error, "Cause": error.cause}
                waits["event"].set()
            raise

    return call_lambda
