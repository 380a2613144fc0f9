"""Archives on a desk: `archive` commands, `recover` after a restore, and `erase`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from faultbridge.cli.commands.records import send
from faultbridge.model.errors import Misconfigured
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.repair.attempt.step_context import StepTools
from tests.archive.world import ArchiveWorld
from tests.cli.desk import OPERATOR, Desk


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


def test_recover_starts_an_epoch_in_every_stream(desk: Desk) -> None:
    done = desk.json("recover", "--by", OPERATOR, "--yes")
    assert (done["epoch"], done["streams"], done["already"]) == (2, 2, 0)
    assert desk.world.node().head.epoch == 2


def test_recover_names_the_spares_that_serve_a_node_and_the_clusters_that_it_could_not_check(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.json("recover", "--yes")["spares_dropped"] == []
    monkeypatch.setattr(send, "drop_taken_spares", lambda _tools, cluster: [f"i-1 of {cluster}"])
    assert desk.json("recover", "--yes")["spares_dropped"] == ["i-1 of train-a"]

    def denied(_tools: StepTools, _cluster: str) -> list[str]:
        raise Misconfigured("no permission to describe instances")

    monkeypatch.setattr(send, "drop_taken_spares", denied)
    done = desk.json("recover", "--yes")
    assert (done["epoch"], done["spares_not_checked"]) == (4, ["train-a: no permission to describe instances"])


def test_recover_with_an_epoch_continues_it_and_without_starts_another(desk: Desk) -> None:
    first = desk.json("recover", "--yes")
    assert desk.json("recover", "--epoch", str(first["epoch"]))["already"] == first["streams"]
    assert desk.json("recover", "--yes")["epoch"] == first["epoch"] + 1


def test_erase_deletes_every_item_of_the_cluster(desk: Desk) -> None:
    assert desk.json("erase", "train-a", "--yes")["erased"] > 0
    assert [item for item in desk.world.ports.table.items() if "train-a" in str(item["pk"])] == []
    assert desk("cluster", "show", "train-a").code == 2


def test_an_unregistered_cluster_is_not_erased(desk: Desk) -> None:
    ran = desk("erase", "nowhere", "--yes")
    assert ran.code != 0
    assert "nowhere" in ran.err
