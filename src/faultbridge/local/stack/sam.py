"""Run SAM CLI (`sam build`, `sam deploy`) and read CloudFormation templates."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from faultbridge.errors import Misconfigured, Transient

# The template's state machines are written in YAML; this script converts them to the deployed JSON.
STATE_MACHINES = Path("infra") / "build_state_machine.py"

# A failure of SAM is explained on lines that contain one of these texts.
_ERROR_TEXTS = ("Error:", "CREATE_FAILED", "UPDATE_FAILED", "Failed to")


def executable() -> str:
    """Return the path of `sam`: the one next to this Python, else the one on `PATH`.

    Raises `Misconfigured` if SAM CLI is not installed.
    """
    beside = Path(sys.executable).with_name("sam")
    found = str(beside) if beside.exists() else shutil.which("sam")
    if found is None:
        raise Misconfigured("SAM CLI is not installed; run `make setup`")
    return found


def run(arguments: Sequence[str], *, project: Path, environment: Mapping[str, str], log: Path) -> None:
    """Run a SAM command and log its output; raises `Transient` with the error line if the command fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    path = f"{Path(sys.executable).parent}:{environment.get('PATH', '')}"
    with log.open("w") as output:
        ended = subprocess.run(
            [executable(), *arguments],
            cwd=project,
            env={**environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode != 0:
        raise Transient(f"`sam {arguments[0]}` failed: {error_line(log)}; see {log}")


def write_state_machines(project: Path) -> None:
    """Convert the state machines of a project from YAML to JSON; do nothing if there are none.

    Raises `Misconfigured` for an invalid state machine.
    """
    if not (project / STATE_MACHINES).exists():
        return
    command = [sys.executable, str(project / STATE_MACHINES)]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        reason = (ended.stderr.strip() or "no error output").splitlines()[-1]
        raise Misconfigured(f"invalid state machine: {reason}; run `make machines`")


def error_line(log: Path) -> str:
    """Return the last line of a log that shows an error.

    If no line shows an error, the result is the last line, or `no output` for an empty log.
    """
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if any(text in line for text in _ERROR_TEXTS)]
    return (errors or lines or ["no output"])[-1]


class _Loader(yaml.SafeLoader):
    """A YAML loader that accepts short CloudFormation intrinsic functions such as `!Ref`."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    if isinstance(node, yaml.MappingNode):
        return {name: loader.construct_mapping(node, deep=True)}
    raise yaml.constructor.ConstructorError(None, None, f"unknown kind of value after !{suffix}", node.start_mark)


_Loader.add_multi_constructor("!", _intrinsic)


def read_template(path: Path) -> dict[str, Any]:
    """Return a CloudFormation template as plain data, with `!Ref` and similar in their long form."""
    document = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506 - a SafeLoader with intrinsics
    return document if isinstance(document, dict) else {}


def resources(template: dict[str, Any], *types: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the logical id and the properties of each resource of the given types in a template."""
    for logical_id, resource in template.get("Resources", {}).items():
        if resource.get("Type") in types:
            yield logical_id, resource.get("Properties", {})
