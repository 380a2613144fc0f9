"""Drop folder: a file that is not valid is deleted and counted once, and never stops the files after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.node.agent.drop_folder import FILES_PER_POLL, DropFolder


@pytest.fixture
def folder(tmp_path: Path) -> DropFolder:
    return DropFolder(tmp_path)


def names(folder: DropFolder) -> list[str]:
    """Return the names of the files that one poll sends; they stay in the folder."""
    return [file.name for file, _, _ in folder.pending()]


def test_a_folder_in_the_drop_folder_is_counted_once(tmp_path: Path, folder: DropFolder) -> None:
    (tmp_path / "training-log.a").mkdir()
    for _ in range(5):
        assert names(folder) == []
    assert folder.refused == 1


def test_folders_do_not_stop_the_files_after_them(tmp_path: Path, folder: DropFolder) -> None:
    for number in range(3 * FILES_PER_POLL):
        (tmp_path / f"a.{number:02}").mkdir()
    (tmp_path / "training-log.job-1").write_text("loss: nan")
    found = [names(folder) for _ in range(4)]
    assert ["training-log.job-1"] in found
    assert folder.refused == 3 * FILES_PER_POLL


def test_unreadable_files_do_not_stop_the_others_and_are_sent_when_they_become_readable(
    tmp_path: Path, folder: DropFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = {f"a.{number:02}" for number in range(2 * FILES_PER_POLL)}
    for name in (*unreadable, "training-log.job-1"):
        (tmp_path / name).write_text("loss: nan")
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:  # file modes do not stop a test that runs as root
        if path.name in unreadable:
            raise PermissionError(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert ["training-log.job-1"] in [names(folder) for _ in range(3)]
    unreadable.remove("a.30")
    assert "a.30" in [name for _ in range(3) for name in names(folder)]
    assert folder.refused == 0


def test_a_file_that_is_not_valid_is_deleted_and_counted_each_time(tmp_path: Path, folder: DropFolder) -> None:
    for _ in range(2):
        (tmp_path / "training-log.empty").touch()
        assert names(folder) == []
    assert (folder.refused, list(tmp_path.iterdir())) == (2, [])


def test_a_link_is_deleted_and_counted_and_its_target_is_neither_read_nor_deleted(
    tmp_path: Path, folder: DropFolder
) -> None:
    target = tmp_path / ".target"
    target.write_text("secret")
    (tmp_path / "training-log.job-1").symlink_to(target)
    assert names(folder) == []
    assert (folder.refused, list(tmp_path.iterdir())) == (1, [target])


@pytest.mark.parametrize(("size", "sent"), [(2 * 1024 * 1024, ["training-log.job-1"]), (2 * 1024 * 1024 + 1, [])])
def test_a_file_above_2_mib_is_deleted_and_counted(
    tmp_path: Path, folder: DropFolder, size: int, sent: list[str]
) -> None:
    (tmp_path / "training-log.job-1").write_bytes(b"x" * size)
    assert names(folder) == sent
    assert ([file.name for file in tmp_path.iterdir()], folder.refused) == (sent, not sent)
