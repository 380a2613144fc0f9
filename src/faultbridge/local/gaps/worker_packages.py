"""Which packages a Lambda function can import.

AWS: its own archive, its layers, and what the runtime brings: boto3 with its dependencies.
MiniStack: all that and whatever is installed beside the emulator, so a dependency that the layer lacks goes
unnoticed.
Here: workers run a Python that does not look at installed packages, with the runtime's own put beside it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from faultbridge.local.environment import FOLDER_VARIABLE
from faultbridge.local.gaps import names as patch

DETECT = "ministack.core.lambda_runtime:_detect_runtime_binary"

# What `python3.11` of Lambda has installed, beside its own runtime client.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")

Detect = Callable[[str], tuple[str, str]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (DETECT,)


def is_open() -> bool:
    """Whether the emulator still starts workers with its own Python and all that is installed there."""
    return bool(patch.resolve(DETECT)("python3.11")[0] == sys.executable)


def apply() -> None:
    """Start workers with the runtime's packages only."""
    interpreter = make_runtime(Path(os.environ[FOLDER_VARIABLE]) / "runtime")
    patch.replace(DETECT, lambda detect: _with_interpreter(detect, interpreter))


def make_runtime(folder: Path) -> Path:
    """Write an interpreter that sees the runtime's packages and no others, and return its path."""
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME_PACKAGES:
        origin = _origin(name)
        link = packages / origin.name
        if not link.exists():
            link.symlink_to(origin)
    interpreter = folder / "python"
    # -S leaves out site-packages, -s the user's; `exec` keeps the process id that the emulator knows.
    command = f"PYTHONPATH={shlex.quote(str(packages))} exec {shlex.quote(sys.executable)} -S -s"
    interpreter.write_text(f'#!/bin/sh\n{command} "$@"\n')
    interpreter.chmod(0o700)
    return interpreter


def _origin(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise LookupError(f"{name} of the Lambda runtime is not installed")
    file = Path(spec.origin)
    return file.parent if file.name == "__init__.py" else file


def _with_interpreter(detect: Detect, interpreter: Path) -> Detect:
    def detect_runtime_binary(runtime: str) -> tuple[str, str]:
        binary, script = detect(runtime)
        return (str(interpreter) if runtime.startswith("python") else binary), script

    return detect_runtime_binary
