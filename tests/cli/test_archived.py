"""Verifying and reading a copied archive without a stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from faultbridge.model.storage.wire import archive_lines as layout
from tests.archive.world import ArchiveWorld


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of a sealed archive with its anchors."""
    world = ArchiveWorld()
    world.record_history()
    world.anchor(world.config)
    world.seal_day()
    for key, body in {**world.archive.stored, **world.vault.stored}.items():
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return tmp_path


def call(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


@pytest.mark.parametrize("anchor", [[], ["--anchor"]])
def test_a_copied_archive_is_verified_without_a_stack(
    copy: Path, anchor: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("verify", "--cluster", "train-a", "--archive", copy, "--json", *anchor) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["streams"], result["entries"], result["whole"]) == (3, 11, True)


def test_verify_names_the_changed_object_of_a_copy(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = next((copy / layout.LINES).rglob("*.gz"))
    part.write_bytes(layout.pack(list(layout.unpack(part.read_bytes()))[1:]))
    assert call("verify", "--cluster", "train-a", "--archive", copy, "--anchor") == 1
    captured = capsys.readouterr()
    assert part.relative_to(copy).as_posix() in captured.err
    assert "Traceback" not in captured.err


def test_verify_names_an_unreadable_object_and_continues(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = next((copy / layout.LINES).rglob("*.gz"))
    part.write_bytes(b"not gzip")
    assert call("verify", "--cluster", "train-a", "--archive", copy, "--json") == 1
    result = json.loads(capsys.readouterr().out)
    assert part.relative_to(copy).as_posix() in {one["object"] for one in result["breaks"]}


def test_timeline_reads_a_copied_archive(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("timeline", "--cluster", "train-a", "--node", "n-1", "--archive", copy, "--jsonl") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["metadata"]["sequence"] for line in lines] == [1, 2, 3, 4, 5]
    assert all("hash" in line for line in lines)


def test_the_timeline_of_a_job_is_not_read_from_an_archive(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("timeline", "--cluster", "train-a", "--job", "7", "--archive", copy) == 2
    assert "--archive with --job" in capsys.readouterr().err


def test_an_archive_without_a_sealed_day_needs_the_stack_identity(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in (copy / layout.MANIFESTS).rglob("*.json"):
        key.unlink()
    assert call("verify", "--cluster", "train-a", "--archive", copy) == 2
    assert "--stack-id" in capsys.readouterr().err


def test_an_archive_folder_that_does_not_exist_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("verify", "--cluster", "train-a", "--archive", tmp_path / "none") == 2
    assert call("timeline", "--cluster", "train-a", "--archive", tmp_path / "none") == 2
    assert "not a folder" in capsys.readouterr().err


def test_a_manifest_cannot_name_a_path_outside_the_folder(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = next((copy / layout.MANIFESTS).rglob("*.json"))
    result = json.loads(manifest.read_text())
    result["objects"][0]["key"] = "../../../etc/passwd"
    manifest.write_text(json.dumps(result))
    assert call("verify", "--cluster", "train-a", "--archive", copy) != 0
    assert "leads outside the folder" in capsys.readouterr().err
