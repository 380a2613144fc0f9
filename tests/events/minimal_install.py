"""Runs Python with only pydantic, its dependencies and this package, as in a customer's function."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import faultbridge

NEEDED = ("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection")


def link_packages(folder: Path, names: Iterable[str] = NEEDED) -> Path:
    """Fill a folder with links to packages, by default pydantic and its dependencies, and to this package."""
    for name in names:
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}:
            (folder / top).symlink_to(str(distribution(name).locate_file(top)))
    (folder / "faultbridge").symlink_to(Path(faultbridge.__file__).parent)
    return folder


def python(folder: Path, code: str, *arguments: str) -> str:
    """Run code that can import only from the folder and the standard library. Return its output."""
    assert importlib.util.find_spec("pydantic")
    start = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    command = [sys.executable, "-I", "-S", "-c", start + code, *arguments]
    environment = {"PATH": os.environ.get("PATH", "")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
