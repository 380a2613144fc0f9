"""Patches for the processes in which MiniStack runs Lambda functions.

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
import shlex
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from faultbridge.local.environment import FOLDER_VARIABLE
from faultbridge.local.gaps.patching import Gap, replace, resolve

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
    replace(DETECT, _with_marker)
    replace(DRAIN, lambda _drain: read_to_marker)


def _with_marker(detect: Detect) -> Detect:
    def detect_runtime_binary(runtime: str) -> tuple[str, str]:
        binary, script = detect(runtime)
        return binary, script.removesuffix(_TAIL) + _TAIL_WITH_MARKER if script.endswith(_TAIL) else script

    return detect_runtime_binary


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
    replace(DETECT, lambda detect: _with_interpreter(detect, interpreter))


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


def _with_interpreter(detect: Detect, interpreter: Path) -> Detect:
    def detect_runtime_binary(runtime: str) -> tuple[str, str]:
        binary, script = detect(runtime)
        return (str(interpreter) if runtime.startswith("python") else binary), script

    return detect_runtime_binary


GAPS = (
    Gap("log_lines", (DRAIN, DETECT), _waits_for_lines, _read_to_markers),
    Gap("worker_packages", (DETECT,), _uses_installed_packages, _use_runtime_packages),
)
