"""Back-tests and comparisons of policies on the command line, with a stack, an archive, or files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.cli.app import run
from tests.archive.world import ArchiveWorld
from tests.builders import KEY
from tests.cli.builders import PACKAGED
from tests.cli.desk import Desk

WAITING = PACKAGED.replace("{name: all,", "{name: all, wait_seconds: 10m,")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    same, waiting = tmp_path / "same.yaml", tmp_path / "waiting.yaml"
    same.write_text(PACKAGED, encoding="utf-8")
    waiting.write_text(WAITING, encoding="utf-8")
    return str(same), str(waiting)


def recorded_fault(desk: Desk) -> None:
    desk.world.outcomes(desk.world.message())


def test_a_back_test_compares_each_recorded_decision(desk: Desk, files: tuple[str, str]) -> None:
    recorded_fault(desk)
    same = desk.json("policy", "backtest", files[0], "--cluster", KEY.cluster)
    (cluster,) = same["clusters"]
    assert cluster["decisions"] == {"compared": 1, "same": 1, "explained": 0}
    assert cluster["differences"] == []
    waiting = desk.json("policy", "backtest", files[1], "--cluster", KEY.cluster, "--since", "1h")
    (difference,) = waiting["clusters"][0]["differences"]
    assert difference["node"] == KEY.node
    assert (difference["recorded"], difference["replayed"]) == (
        "open replace_node for xid.79, queue",
        "open replace_node for xid.79 after 600 s",
    )


def test_a_back_test_is_printed_as_tables_of_80_columns(desk: Desk, files: tuple[str, str]) -> None:
    recorded_fault(desk)
    printed = desk("policy", "backtest", files[0], "--cluster", KEY.cluster)
    assert printed.code == 0, printed.err
    assert "1 of 1 recorded decisions are the same under the policy" in printed.out
    assert "nodes touched" in printed.out
    assert max(map(len, printed.out.splitlines())) <= 80


def test_a_back_test_compares_two_policies(desk: Desk, files: tuple[str, str]) -> None:
    recorded_fault(desk)
    document = desk.json("policy", "backtest", files[0], "--against", files[1], "--cluster", KEY.cluster)
    (difference,) = document["clusters"][0]["differences"]
    assert difference["recorded"].endswith("after 600 s")
    assert document["against"] is not None


def test_a_stored_version_is_back_tested(desk: Desk, files: tuple[str, str]) -> None:
    recorded_fault(desk)
    version = desk.json("policy", "put", files[1])["version"]
    document = desk.json("policy", "backtest", version, "--cluster", KEY.cluster)
    assert document["policy"] == version
    assert desk("policy", "backtest", "0123456789ab", "--cluster", KEY.cluster).code == 2


def test_two_files_are_compared_without_a_stack(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "diff", *files]) == 0
    assert capsys.readouterr().out.split("\n")[1].split() == ["all", "wait_seconds", "0s", "10m"]


def test_a_difference_names_changed_decisions_where_history_is_given(desk: Desk, files: tuple[str, str]) -> None:
    recorded_fault(desk)
    document = desk.json("policy", "diff", *files, "--cluster", KEY.cluster, "--since", "1h")
    assert [one["field"] for one in document["values"]] == ["wait_seconds"]
    assert len(document["clusters"][0]["differences"]) == 1
    assert desk.json("policy", "diff", *files)["clusters"] == []


def test_an_archive_is_back_tested_without_a_stack(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    world = ArchiveWorld()
    world.record_history()
    world.seal_day()
    copy = tmp_path / "copy"
    for key, body in world.archive.stored.items():
        path = copy / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    assert run(["policy", "backtest", files[0], "--archive", str(copy)]) == 0
    assert "recorded decisions are the same under the policy" in capsys.readouterr().out
    assert run(["policy", "backtest", "0123456789ab", "--archive", str(copy)]) == 2
    assert "not a file" in capsys.readouterr().err
