"""Files of an embedded stack: state file, fingerprints, template, logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultbridge.local.stack import files
from faultbridge.local.stack import files as fingerprint
from faultbridge.local.stack.files import Emulator, Process, StackFolder, StackState, stack_folder
from faultbridge.local.stack.lifecycle import last_line
from faultbridge.model.errors import Misconfigured

LOCAL = Path(fingerprint.__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> StackFolder:
    return StackFolder(tmp_path / "stack")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    rooms = ("src/faultbridge/decide", "src/faultbridge/local", "src/faultbridge/cli")
    for name in (*rooms, "functions/ingest", "infra"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("once")
    (root / "infra" / "template.yaml").write_text("Resources: {}")
    return root


def a_stack() -> StackState:
    return StackState(
        stack="faultbridge",
        region="us-east-1",
        token="t",
        emulators=(
            Emulator("event-plane", Process(11, "boot/1"), 4566, "/log/event"),
            Emulator("compute-plane", Process(12, "boot/2"), 5000, "/log/compute"),
        ),
        emulator_code="abc",
    )


def test_a_written_state_is_read_back_unchanged(folder: StackFolder) -> None:
    written = a_stack().with_deployment("print", {"TableName": "t"})
    files.write_state(folder, written)
    assert files.read_state(folder) == written


def test_a_stack_without_a_state_file_is_not_running(folder: StackFolder) -> None:
    assert files.read_state(folder) is None


def test_a_truncated_or_incompatible_state_file_means_not_running(folder: StackFolder) -> None:
    files.write_state(folder, a_stack())
    whole = folder.state.read_text()
    folder.state.write_text(whole[: len(whole) // 2])
    assert files.read_state(folder) is None
    folder.state.write_text(whole.replace('"version": 1', '"version": 99'))
    assert files.read_state(folder) is None


@pytest.mark.parametrize("text", ["[]", "null", '{"version": 1}', '{"version": 1, "emulators": [1]}'])
def test_a_damaged_state_file_means_not_running(folder: StackFolder, text: str) -> None:
    files.write_state(folder, a_stack())
    folder.state.write_text(text)
    assert files.read_state(folder) is None


def test_a_state_file_can_be_removed_twice(folder: StackFolder) -> None:
    files.write_state(folder, a_stack())
    files.remove_state(folder)
    files.remove_state(folder)
    assert files.read_state(folder) is None


def test_files_are_in_the_project_by_default(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(files.HOME_VARIABLE, raising=False)
    monkeypatch.chdir(project / "functions" / "ingest")
    assert stack_folder("one").root == project / ".faultbridge" / "one"
    monkeypatch.setenv(files.HOME_VARIABLE, str(tmp_path / "other"))
    assert stack_folder("one").root == tmp_path / "other" / "one"


@pytest.mark.parametrize("name", ["", "../other", "1st", "a/b", "with space", "émile"])
def test_an_invalid_stack_name_is_refused(name: str) -> None:
    with pytest.raises(Misconfigured, match="invalid stack name"):
        stack_folder(name)


@pytest.mark.parametrize("changed", ["src/faultbridge/decide/file", "functions/ingest/file", "infra/template.yaml"])
def test_a_changed_deployed_file_changes_the_fingerprint(project: Path, changed: str) -> None:
    before = fingerprint.of_deployment(project, {})
    (project / changed).write_text("twice")
    assert fingerprint.of_deployment(project, {}) != before


@pytest.mark.parametrize("changed", ["src/faultbridge/local/file", "src/faultbridge/cli/file", "README.md"])
def test_a_file_that_is_not_deployed_does_not_change_the_fingerprint(project: Path, changed: str) -> None:
    before = fingerprint.of_deployment(project, {})
    (project / changed).write_text("twice")
    assert fingerprint.of_deployment(project, {}) == before


def test_a_renamed_file_or_a_changed_parameter_changes_the_fingerprint(project: Path) -> None:
    before = fingerprint.of_deployment(project, {"ProbeSeconds": "1"})
    assert fingerprint.of_deployment(project, {"ProbeSeconds": "2"}) != before
    (project / "functions/ingest/file").rename(project / "functions/ingest/renamed")
    assert fingerprint.of_deployment(project, {"ProbeSeconds": "1"}) != before


def test_a_generated_file_does_not_change_the_fingerprint(project: Path) -> None:
    before = fingerprint.of_deployment(project, {})
    (project / "infra/machine.asl.json").write_text("generated from YAML")
    (project / "functions/ingest/__pycache__").mkdir()
    (project / "functions/ingest/__pycache__/handler.cpython-311.pyc").write_text("x")
    assert fingerprint.of_deployment(project, {}) == before


def test_every_module_of_this_package_that_an_emulator_imports_changes_the_fingerprint_of_the_emulators() -> None:
    covered = {file for name in fingerprint._EMULATORS for file in fingerprint._files(LOCAL / name)}
    imported = {module for file in covered for module in _modules_imported_by(file)}
    assert LOCAL / "hyperpod.py" in imported
    assert imported - covered == set()


def _modules_imported_by(file: Path) -> Iterator[Path]:
    """Yield the modules of the package `local` that a file imports, also within functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("faultbridge.local"):
            path = LOCAL.joinpath(*node.module.split(".")[2:])
            names = [path / f"{one.name}.py" for one in node.names]
            yield from (one for one in (path.with_suffix(".py"), *names) if one.is_file())


def test_the_last_line_of_a_log_that_is_not_blank_is_found(tmp_path: Path) -> None:
    log = tmp_path / "process.log"
    assert last_line(log) == "no log"
    log.write_text("first\nsecond\n \n")
    assert last_line(log) == "second"
