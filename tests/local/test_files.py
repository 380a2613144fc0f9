"""Where the stack keeps its files, and what it makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.errors import Misconfigured
from faultbridge.local import fingerprint, paths, sam, state, template
from faultbridge.local.emulators import last_line
from faultbridge.local.paths import StackFolder, stack_folder
from faultbridge.local.processes import Process
from faultbridge.local.state import Emulator, StackState


@pytest.fixture
def folder(tmp_path: Path) -> StackFolder:
    return StackFolder(tmp_path / "stack")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("src/faultbridge/stages", "src/faultbridge/local", "src/faultbridge/cli", "functions/ingest", "infra"):
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


def test_a_written_state_reads_back_the_same(folder: StackFolder) -> None:
    written = a_stack().with_deployment("print", {"TableName": "t"})
    state.write(folder, written)
    assert state.read(folder) == written


def test_no_file_means_not_up(folder: StackFolder) -> None:
    assert state.read(folder) is None


def test_a_file_that_is_cut_short_or_of_another_version_means_not_up(folder: StackFolder) -> None:
    state.write(folder, a_stack())
    whole = folder.state.read_text()
    folder.state.write_text(whole[: len(whole) // 2])
    assert state.read(folder) is None
    folder.state.write_text(whole.replace('"version": 1', '"version": 99'))
    assert state.read(folder) is None


def test_a_removed_state_is_gone_and_may_be_removed_again(folder: StackFolder) -> None:
    state.write(folder, a_stack())
    state.remove(folder)
    state.remove(folder)
    assert state.read(folder) is None


def test_files_lie_in_the_project_unless_told_otherwise(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(paths.HOME_VARIABLE, raising=False)
    monkeypatch.chdir(project / "functions" / "ingest")
    assert stack_folder("one").root == project / ".faultbridge" / "one"
    monkeypatch.setenv(paths.HOME_VARIABLE, str(tmp_path / "elsewhere"))
    assert stack_folder("one").root == tmp_path / "elsewhere" / "one"


@pytest.mark.parametrize("name", ["", "../other", "1st", "a/b", "with space"])
def test_a_name_that_is_no_stack_name_is_refused(name: str) -> None:
    with pytest.raises(Misconfigured, match="no stack name"):
        stack_folder(name)


@pytest.mark.parametrize("changed", ["src/faultbridge/stages/file", "functions/ingest/file", "infra/template.yaml"])
def test_what_is_deployed_is_deployed_again_when_it_changes(project: Path, changed: str) -> None:
    before = fingerprint.of_deployment(project, {})
    (project / changed).write_text("twice")
    assert fingerprint.of_deployment(project, {}) != before


@pytest.mark.parametrize("changed", ["src/faultbridge/local/file", "src/faultbridge/cli/file", "README.md"])
def test_what_is_not_deployed_does_not_count(project: Path, changed: str) -> None:
    before = fingerprint.of_deployment(project, {})
    (project / changed).write_text("twice")
    assert fingerprint.of_deployment(project, {}) == before


def test_a_renamed_file_and_another_parameter_count(project: Path) -> None:
    before = fingerprint.of_deployment(project, {"ProbeSeconds": "1"})
    assert fingerprint.of_deployment(project, {"ProbeSeconds": "2"}) != before
    (project / "functions/ingest/file").rename(project / "functions/ingest/renamed")
    assert fingerprint.of_deployment(project, {"ProbeSeconds": "1"}) != before


def test_what_the_build_makes_does_not_count(project: Path) -> None:
    before = fingerprint.of_deployment(project, {})
    (project / "infra/machine.asl.json").write_text("made from YAML")
    (project / "functions/ingest/__pycache__").mkdir()
    (project / "functions/ingest/__pycache__/handler.cpython-311.pyc").write_text("x")
    assert fingerprint.of_deployment(project, {}) == before


def test_short_forms_of_intrinsic_functions_are_read_as_their_long_ones(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text("a: !Ref B\nb: !GetAtt C.Arn\nc: !If [D, !Sub '${E}', {f: !Condition G}]\n")
    assert template.read(file) == {
        "a": {"Ref": "B"},
        "b": {"Fn::GetAtt": ["C", "Arn"]},
        "c": {"Fn::If": ["D", {"Fn::Sub": "${E}"}, {"f": {"Condition": "G"}}]},
    }


def test_resources_are_found_by_type(tmp_path: Path) -> None:
    document = {"Resources": {"A": {"Type": "T", "Properties": {"x": 1}}, "B": {"Type": "U"}, "C": {"Type": "T"}}}
    assert list(template.resources(document, "T")) == [("A", {"x": 1}), ("C", {})]


def test_the_line_of_a_failed_sam_run_that_says_why_is_found(tmp_path: Path) -> None:
    log = tmp_path / "sam.log"
    log.write_text("Building\nError: template is missing\nA newer version is available\n\n")
    assert sam.telling_line(log) == "Error: template is missing"
    log.write_text("Building\nsomething else\n\n")
    assert sam.telling_line(log) == "something else"
    log.write_text("\n")
    assert sam.telling_line(log) == "it printed nothing"


def test_the_last_line_of_a_log_is_found_past_empty_ones(tmp_path: Path) -> None:
    log = tmp_path / "process.log"
    assert last_line(log) == "no log"
    log.write_text("first\nsecond\n \n")
    assert last_line(log) == "second"
