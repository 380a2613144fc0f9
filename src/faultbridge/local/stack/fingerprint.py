"""Compute fingerprints of files; a changed fingerprint requires a build, a deployment or a restart."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# The inputs of a deployment. Of the package, `local` and `cli` run only on this machine.
_DEPLOYED = (
    "src/faultbridge",
    "functions",
    "infra",
    "schemas",
    "requirements/console.txt",
    "requirements/kubernetes.txt",
    "requirements/lambda.txt",
    "samconfig.toml",
    "Makefile",
)
_NOT_DEPLOYED = ("src/faultbridge/local", "src/faultbridge/cli")
_EMULATORS = ("environment.py", "servers", "gaps", "kubernetes", "hyperpod", "stack/files.py", "stack/processes.py")
_IGNORED = {"__pycache__", ".aws-sam", ".mypy_cache", ".ruff_cache"}
_GENERATED = (".pyc", ".asl.json")  # generated from files that are included


def of_deployment(project: Path, parameters: dict[str, str]) -> str:
    """Return the fingerprint of the deployed files of a project and of the parameters of a deployment."""
    excluded = tuple(project / name for name in _NOT_DEPLOYED)
    files = (
        file
        for name in _DEPLOYED
        for file in _files(project / name)
        if not any(file.is_relative_to(folder) for folder in excluded)
    )
    return _digest(project, files, salt=repr(sorted(parameters.items())))


def of_emulators() -> str:
    """Return the fingerprint of the code that the emulators load; if it changed, they must be restarted."""
    package = Path(__file__).parents[1]
    return _digest(package, (file for name in _EMULATORS for file in _files(package / name)), salt=sys.executable)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for entry in sorted(path.iterdir()):
            if entry.name not in _IGNORED and not entry.name.endswith(_GENERATED):
                yield from _files(entry)


def _digest(root: Path, files: Iterable[Path], *, salt: str) -> str:
    digest = hashlib.sha256(salt.encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
