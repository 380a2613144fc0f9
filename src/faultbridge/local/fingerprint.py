"""Fingerprints of files: what decides whether a build, a deployment or a restart is due."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# The package runs in Lambda beside these; `local` and `cli` run only on this side.
_DEPLOYED = (
    "src/faultbridge",
    "functions",
    "infra",
    "schemas",
    "requirements/kubernetes.txt",
    "requirements/lambda.txt",
    "samconfig.toml",
    "Makefile",
)
_NOT_DEPLOYED = ("src/faultbridge/local", "src/faultbridge/cli")
_EMULATORS = ("event_plane.py", "compute_plane.py", "environment.py", "gaps", "data")
_IGNORED = {"__pycache__", ".aws-sam", ".mypy_cache", ".ruff_cache"}
_MADE = (".pyc", ".asl.json")  # the build makes these from files that do count


def of_deployment(project: Path, parameters: dict[str, str]) -> str:
    """Return the fingerprint of everything that goes into the deployed stack, with its parameters."""
    left_out = tuple(project / name for name in _NOT_DEPLOYED)
    files = (
        file
        for name in _DEPLOYED
        for file in _files(project / name)
        if not any(file.is_relative_to(folder) for folder in left_out)
    )
    return _digest(project, files, salt=repr(sorted(parameters.items())))


def of_emulators() -> str:
    """Return the fingerprint of our own code inside the emulators; running ones with another one are out of date."""
    here = Path(__file__).parent
    return _digest(here, (file for name in _EMULATORS for file in _files(here / name)), salt=sys.executable)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for entry in sorted(path.iterdir()):
            if entry.name not in _IGNORED and not entry.name.endswith(_MADE):
                yield from _files(entry)


def _digest(root: Path, files: Iterable[Path], *, salt: str) -> str:
    digest = hashlib.sha256(salt.encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
