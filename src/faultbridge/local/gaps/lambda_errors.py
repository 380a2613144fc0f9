"""Patches that make MiniStack report errors of Lambda functions as AWS does.

`lambda_error_names`
AWS: `errorType` is the class name of the exception, and `Retry` and `Catch` of a state machine match this name.
MiniStack: `errorType` is always `Runtime.HandlerError`.
Here: the class name is read from the traceback that the Lambda worker prints.

`callback_failures`
AWS: if the function of a task that waits for a callback fails, the task fails with the function's error.
MiniStack: the failure is ignored, and the task waits for the callback until it times out.
Here: the failure is stored as the result of the callback, and the task continues immediately.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve, source_has

EXECUTE = "ministack.services.lambda_svc:_execute_function"
EXECUTE_WARM = "ministack.services.lambda_svc:_execute_function_warm"
INVOKE = "ministack.services.stepfunctions:_invoke_with_callback"
CALL = "ministack.services.stepfunctions:_call_lambda"
TOKENS = "ministack.services.stepfunctions:_task_tokens"
ERROR = "ministack.services.stepfunctions:_ExecutionError"

_GENERIC_ERROR = "Runtime.HandlerError"
# `package.module.Class: text` or a bare `Class`, as the last line of a traceback shows it.
_LAST_LINE = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*)(?::|$)")

_current = threading.local()


def _with_class_names(execute: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def execute_function(function: dict[str, Any], event: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        result = execute(function, event)
        body = result.get("body")
        if result.get("error") and isinstance(body, dict) and body.get("errorType") == _GENERIC_ERROR:
            return {**result, "body": {**body, "errorType": error_name(str(result.get("log", "")))}}
        return result

    return execute_function


def error_name(log: str) -> str:
    """Return the class name in the last traceback of a log, or `Runtime.HandlerError` without one."""
    if "Traceback (most recent call last)" not in log:
        return _GENERIC_ERROR
    # A message may have several lines; the class is on the first line after the frames that is not indented.
    tail = log.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]
    for line in tail:
        match = _LAST_LINE.match(line)
        if match:
            return match["name"]
    return _GENERIC_ERROR


def _ignores_failed_calls() -> bool:
    after_the_call = inspect.getsource(resolve(INVOKE)).partition("_call_lambda(")[2]
    return "pass" in after_the_call.partition("except _ExecutionError:")[2].split()[:1]


def _fail_waiting_tasks() -> None:
    replace(INVOKE, _storing_token)
    replace(CALL, _reporting_failure)


def _storing_token(invoke: Callable[..., Any]) -> Callable[..., Any]:
    def invoke_with_callback(resource: str, data: Any, token: str, state: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        _current.token = token
        try:
            return invoke(resource, data, token, state)
        finally:
            _current.token = None

    return invoke_with_callback


def _reporting_failure(call: Callable[..., Any]) -> Callable[..., Any]:
    execution_error = resolve(ERROR)

    def call_lambda(reference: str, event: Any) -> Any:  # noqa: ANN401 - any JSON
        try:
            return call(reference, event)
        except execution_error as error:
            task = resolve(TOKENS).get(getattr(_current, "token", None))
            if task is not None:
                task["error"] = {"Error": error.error, "Cause": error.cause}
                task["event"].set()
            raise

    return call_lambda


GAPS = (
    Gap(
        "lambda_error_names",
        (EXECUTE, EXECUTE_WARM),
        source_has(EXECUTE_WARM, f'"{_GENERIC_ERROR}"'),
        lambda: replace(EXECUTE, _with_class_names),
    ),
    Gap("callback_failures", (INVOKE, CALL, TOKENS, ERROR), _ignores_failed_calls, _fail_waiting_tasks),
)
