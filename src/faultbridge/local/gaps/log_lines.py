"""The log lines of a call.

AWS: every line that a function prints is logged with its call, and no answer waits for it.
MiniStack: after the answer it waits 50 ms for a first line and goes on when 5 ms pass without one: a handler that
prints nothing costs 54 ms a call instead of 7, and a line that comes late is lost with the worker.
Here: the worker marks the end of each call's output, and the emulator reads up to the mark.
"""

from __future__ import annotations

import inspect
import queue
import time
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

DRAIN = "ministack.core.lambda_runtime:Worker|_drain_stderr_bounded"
DETECT = "ministack.core.lambda_runtime:_detect_runtime_binary"

MARK = "\x1eend-of-call"

# The last lines of the worker's script: what follows each call, and the call of its main function.
_TAIL = "        _real_stdout.flush()\n\nrun()\n"
_MARKED_TAIL = f'        sys.stderr.write({MARK!r} + "\\n")\n        sys.stderr.flush()\n{_TAIL}'
# A worker that died sends no mark.
_PATIENCE_SECONDS = 0.25
_THEIR_PATIENCE_SECONDS = 0.05

Detect = Callable[[str], tuple[str, str]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (DRAIN, DETECT)


def is_open() -> bool:
    """Tell whether the emulator still guesses by waiting, and whether its script still ends as ours needs it."""
    waiting = inspect.signature(patch.resolve(DRAIN)).parameters["first_line_wait"].default
    return bool(waiting == _THEIR_PATIENCE_SECONDS) and patch.resolve(DETECT)("python3.11")[1].endswith(_TAIL)


def apply() -> None:
    """Mark the end of each call's output and read up to it."""
    patch.replace(DETECT, _with_marks)
    patch.replace(DRAIN, lambda _drain: _read_to_mark)


def _with_marks(detect: Detect) -> Detect:
    def detect_runtime_binary(runtime: str) -> tuple[str, str]:
        binary, script = detect(runtime)
        return binary, script.removesuffix(_TAIL) + _MARKED_TAIL if script.endswith(_TAIL) else script

    return detect_runtime_binary


def _read_to_mark(worker: Any) -> str:  # noqa: ANN401 - the emulator's class
    lines: list[str] = []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        try:
            line = str(worker._stderr_queue.get(timeout=left))
        except queue.Empty:
            break
        text = line.removesuffix(MARK)
        if text or text == line:
            lines.append(text)
        if text != line:
            break
    return "\n".join(lines)
