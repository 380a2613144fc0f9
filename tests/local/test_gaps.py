"""Each gap is named, is still open in the pinned emulator, and touches names that exist."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from faultbridge.local import emulators, gaps
from faultbridge.local.environment import compute_plane_environment, event_plane_environment
from faultbridge.local.gaps import names
from faultbridge.local.gaps.lambda_error_names import error_name
from faultbridge.local.paths import StackFolder
from faultbridge.local.ports import USUAL

# In a process of its own: importing an emulator starts threads and reads the environment.
PROBE = """
import json, sys
from faultbridge.local import gaps
from faultbridge.local.gaps import names
found = {}
for name in sys.argv[1:]:
    gap = gaps.load(name)
    missing = []
    for private in gap.names():
        try:
            names.resolve(private)
        except LookupError as error:
            missing.append(str(error))
    found[name] = {"missing": missing, "names": len(gap.names()), "open": not missing and gap.is_open()}
print("PROBED" + json.dumps(found))
"""


def probe(tmp_path: Path, environment: dict[str, str], wanted: tuple[str, ...]) -> dict[str, dict[str, object]]:
    ended = subprocess.run(
        [sys.executable, "-c", PROBE, *wanted],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, dict[str, object]] = json.loads(ended.stdout.partition("PROBED")[2])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> StackFolder:
    folder = StackFolder(tmp_path)
    for name in ("tmp", "state", "s3"):
        (folder.scratch / name).mkdir(parents=True)
    return folder


@pytest.mark.parametrize("plane", ["event-plane", "compute-plane"])
def test_every_gap_is_still_open_and_every_replaced_name_exists(folder: StackFolder, plane: str) -> None:
    environment, wanted = {
        "event-plane": (event_plane_environment(USUAL, folder, ""), gaps.EVENT_PLANE),
        "compute-plane": (compute_plane_environment(USUAL, folder, ""), gaps.COMPUTE_PLANE),
    }[plane]
    found = probe(folder.root, environment, wanted)
    assert set(found) == set(wanted)
    for name, result in found.items():
        assert result["names"], name
        assert result["missing"] == [], name
        assert result["open"] is True, f"{name}: the emulator does this by itself now; drop the gap"


def test_every_module_of_a_gap_is_applied_by_one_plane() -> None:
    folder = Path(gaps.__file__).parent
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "names"}
    assert sorted([*gaps.EVENT_PLANE, *gaps.COMPUTE_PLANE]) == sorted(modules)


@pytest.mark.parametrize("name", [*gaps.EVENT_PLANE, *gaps.COMPUTE_PLANE])
def test_a_gap_says_what_aws_does_what_the_emulator_does_and_what_is_done(name: str) -> None:
    text = (Path(gaps.__file__).parent / f"{name}.py").read_text().split('"""')[1]
    emulator = "MiniStack" if name in gaps.EVENT_PLANE else "moto"
    for part in ("\nAWS: ", f"\n{emulator}: ", "\nHere: "):
        assert part in text


def test_the_emulators_are_pinned_exactly_as_the_gaps_need_them() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for name, version in emulators.PINNED.items():
        assert any(line.strip().startswith(f'"{name}') and f"=={version}" in line for line in project.splitlines())


def test_a_name_that_the_emulator_lacks_is_an_error() -> None:
    with pytest.raises(LookupError, match="no_such_name"):
        names.resolve("json:no_such_name")
    with pytest.raises(LookupError, match="no_such_key"):
        names.replace("os:environ|no_such_key", lambda old: old)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", "Runtime.HandlerError"),
        ("some print\nTraceback (most recent call last):\n  File x\n    raise A\nValueError: no\n", "ValueError"),
        ("Traceback (most recent call last):\n  File x\n    raise A\nours.errors.Lost: one\nValue: two\n", "Lost"),
        ("Traceback (most recent call last):\n  File x\n    raise A\nKeyboardInterrupt", "KeyboardInterrupt"),
        (
            "Traceback (most recent call last):\n  a\nKeyError: 1\n\nDuring handling of the above exception, another "
            "exception occurred:\n\nTraceback (most recent call last):\n  b\nours.Second: x",
            "Second",
        ),
    ],
)
def test_an_error_has_the_name_of_its_class(log: str, expected: str) -> None:
    assert error_name(log) == expected


@pytest.mark.parametrize("name", [*gaps.EVENT_PLANE, *gaps.COMPUTE_PLANE])
def test_a_gap_is_told_in_the_documentation(name: str) -> None:
    assert f"| `{name}` |" in (Path(__file__).parents[2] / "docs" / "embedded-stack.md").read_text()
