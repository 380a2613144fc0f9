"""What no tracked file may contain."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.project import ROOT, imports, modules, relative

# Written with a class of one letter, so that the patterns do not find themselves.
LOCAL_PATHS = re.compile(r"/h[o]me/\w|/r[o]ot/|/w[o]rk/|/U[s]ers/\w|[A-Z]:\\U[s]ers")
REGISTRIES = re.compile(r"p[y]pi\.org|p[y]thonhosted\.org|c[o]deartifact\.|a[r]tifactory|/s[i]mple/")
TEST_MODULE = re.compile(r"tests\.(?:\w+\.)*test_\w+")
BINARY = {".gz", ".png", ".zip", ".bin"}


def tracked() -> list[Path]:
    """Return every tracked text file that exists; none outside a git checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and path.suffix not in BINARY]


def hits(pattern: re.Pattern[str]) -> list[str]:
    """Return the places of a pattern, as file:line."""
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_contains_a_local_path() -> None:
    assert hits(LOCAL_PATHS) == []


def test_no_file_names_a_package_registry() -> None:
    assert hits(REGISTRIES) == []


def test_nothing_that_is_built_is_tracked() -> None:
    built = re.compile(r"(^|/)(\.venv|\.aws-sam|__pycache__|node_modules)/|\.pyc$|\.asl\.json$")
    assert [str(path) for path in tracked() if built.search(path.relative_to(ROOT).as_posix())] == []


def test_the_whole_check_is_one_program() -> None:
    run = ROOT / ".ci" / "run"
    assert run.stat().st_mode & 0o111
    assert re.search(r"^make check\nexec make servers$", run.read_text(encoding="utf-8"), re.MULTILINE)


def test_no_test_module_imports_another_one() -> None:
    """What several test modules use is in a builder module, so a test can change without others."""
    found = [
        f"{relative(path)}: {name}"
        for path in modules(ROOT / "tests")
        if TEST_MODULE.search(path.read_text(encoding="utf-8"))  # syntax trees of all tests take seconds, and memory
        for name in sorted(imports(path))
        if name.startswith("tests.") and TEST_MODULE.fullmatch(name)
        if ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file()
    ]
    assert found == []
