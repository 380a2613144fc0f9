"""Patches for how MiniStack runs Lambda functions, and for the errors that it reports.

`lambda_error_names`
AWS: `errorType` is the class name of the exception, and `Retry` and `Catch` of a state machine match this name.
MiniStack: `errorType` is always `Runtime.HandlerError`.
Here: the class name is read from the traceback that the Lambda worker prints.

`callback_failures`
AWS: if the function of a task that waits for a callback fails, the task fails with the function's error.
MiniStack: the failure is ignored, and the task waits for the callback until it times out.
Here: the failure is stored as the result of the callback, and the task continues immediately.

`log_lines`
AWS: every line that a function prints is logged with its call, and the response does not wait for the log.
MiniStack: after the response, it waits up to 50 ms for the first line and up to 5 ms for each further line. A handler
that prints nothing takes 54 ms instead of 7 ms, and late lines of a stopped worker are lost.
Here: the worker writes a marker after the output of each call, and MiniStack reads up to the marker.

`worker_packages`
AWS: a function can import its own archive, its layers and the packages of the runtime: boto3 with its dependencies.
MiniStack: a function can also import every package that is installed next to MiniStack, which hides missing
dependencies.
Here: workers run a Python that ignores installed packages; only the packages of the Lambda runtime are added.
"""

from __future__ import annotations

import inspect
import os
import queue
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from faultbridge.local.environment import FOLDER_VARIABLE
from faultbridge.local.gaps.patching import Gap, replace, resolve, source_has, wrap

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


def _with_class_names(execute: Callable[..., dict[str, Any]], function: dict[str, Any], event: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    result = execute(function, event)
    body = result.get("body")
    if result.get("error") and isinstance(body, dict) and body.get("errorType") == _GENERIC_ERROR:
        return {**result, "body": {**body, "errorType": error_name(str(result.get("log", "")))}}
    return result


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
    wrap(INVOKE, _storing_token)
    wrap(CALL, _reporting_failure)


def _storing_token(invoke: Callable[..., Any], resource: str, data: Any, token: str, state: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    _current.token = token
    try:
        return invoke(resource, data, token, state)
    finally:
        _current.token = None


def _reporting_failure(call: Callable[..., Any], reference: str, event: Any) -> Any:  # noqa: ANN401 - any JSON
    try:
        return call(reference, event)
    except resolve(ERROR) as error:
        task = resolve(TOKENS).get(getattr(_current, "token", None))
        if task is not None:
            task["error"] = {"Error": error.error, "Cause": error.cause}
            task["event"].set()
        raise


DRAIN = "ministack.core.lambda_runtime:Worker|_drain_stderr_bounded"
DETECT = "ministack.core.lambda_runtime:_detect_runtime_binary"

MARKER = "\x1eend-of-call"
# The packages that `python3.11` of Lambda includes, besides its own runtime client.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")

# The last lines of the worker's script: the end of each call, and the call of its main function.
_TAIL = "        _real_stdout.flush()\n\nrun()\n"
_TAIL_WITH_MARKER = f'        sys.stderr.write({MARKER!r} + "\\n")\n        sys.stderr.flush()\n{_TAIL}'
# A dead worker sends no marker. A living one wrote it before its answer, but on a busy host its lines arrive late. A
# marker that arrives after the end of the wait would end the lines of the next call, which would then be incomplete.
_DEAD_AFTER_SECONDS, _MAX_SECONDS = 0.25, 30.0
_EMULATOR_TIMEOUT_SECONDS = 0.05

Detect = Callable[[str], tuple[str, str]]


def _waits_for_lines() -> bool:
    timeout = inspect.signature(resolve(DRAIN)).parameters["first_line_wait"].default
    return bool(timeout == _EMULATOR_TIMEOUT_SECONDS) and resolve(DETECT)("python3.11")[1].endswith(_TAIL)


def _read_to_markers() -> None:
    wrap(DETECT, _with_marker)
    replace(DRAIN, lambda _drain: read_to_marker)


def _with_marker(detect: Detect, runtime: str) -> tuple[str, str]:
    binary, script = detect(runtime)
    return binary, script.removesuffix(_TAIL) + _TAIL_WITH_MARKER if script.endswith(_TAIL) else script


def read_to_marker(worker: Any) -> str:  # noqa: ANN401 - the emulator's class
    """Return the lines of a worker's last call, up to the marker, its end, or 30 seconds."""
    lines: list[str] = []
    deadline = time.monotonic() + _MAX_SECONDS
    while time.monotonic() < deadline:
        try:
            line = str(worker._stderr_queue.get(timeout=_DEAD_AFTER_SECONDS))
        except queue.Empty:
            if worker._proc is None or worker._proc.poll() is not None:
                break
            continue
        text = line.removesuffix(MARKER)
        if text or text == line:
            lines.append(text)
        if text != line:
            break
    return "\n".join(lines)


def _uses_installed_packages() -> bool:
    return bool(resolve(DETECT)("python3.11")[0] == sys.executable)


def _use_runtime_packages() -> None:
    interpreter = make_runtime(Path(os.environ[FOLDER_VARIABLE]) / "runtime")
    wrap(DETECT, lambda detect, runtime: _with_interpreter(detect, runtime, interpreter))


def make_runtime(folder: Path) -> Path:
    """Write a script that starts Python with only the packages of the Lambda runtime; return its path."""
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME_PACKAGES:
        origin = _package_path(name)
        link = packages / origin.name
        if not link.exists():
            link.symlink_to(origin)
    interpreter = folder / "python"
    # -S excludes site-packages, -s the user's packages; `exec` keeps the process id that the emulator stores.
    command = f"PYTHONPATH={shlex.quote(str(packages))} exec {shlex.quote(sys.executable)} -S -s"
    interpreter.write_text(f'#!/bin/sh\n{command} "$@"\n')
    interpreter.chmod(0o700)
    return interpreter


def _package_path(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise LookupError(f"package of the Lambda runtime is not installed: {name}; run `make setup`")
    file = Path(spec.origin)
    return file.parent if file.name == "__init__.py" else file


def _with_interpreter(detect: Detect, runtime: str, interpreter: Path) -> tuple[str, str]:
    binary, script = detect(runtime)
    return (str(interpreter) if runtime.startswith("python") else binary), script


GAPS = (
    Gap(
        "lambda_error_names",
        (EXECUTE, EXECUTE_WARM),
        source_has(EXECUTE_WARM, f'"{_GENERIC_ERROR}"'),
        lambda: wrap(EXECUTE, _with_class_names),
    ),
    Gap("callback_failures", (INVOKE, CALL, TOKENS, ERROR), _ignores_failed_calls, _fail_waiting_tasks),
    Gap("log_lines", (DRAIN, DETECT), _waits_for_lines, _read_to_markers),
    Gap("worker_packages", (DETECT,), _uses_installed_packages, _use_runtime_packages),
)
