"""`faultbridge explain`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from tests.explain.traces import generate


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, body in generate(4).files.items():
        (tmp_path / name).write_bytes(body)
    return [str(one) for one in tmp_path.iterdir()]


def test_the_table_names_the_rank_and_states_the_scope(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", *files]) == 0
    out, err = capsys.readouterr()
    (rank,) = generate(4).injected
    assert out.splitlines()[1].split()[:3] == [str(rank), "-", "behind"]
    assert "explains collectives only" in err
    assert "no verdict" in err


def test_the_json_document_has_the_documented_fields(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--json", *files]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {
        "scope", "dumps", "ranks", "nodes", "findings", "waiting", "joined", "missing", "missing_blamed"
    }  # fmt: skip
    assert (document["scope"], document["dumps"]) == ("collectives", len(files))
    assert document["ranks"] == sorted(generate(4).injected)
    assert document["findings"][0].keys() == {
        "rank", "node", "state", "group", "description", "sequence", "operation", "waiting", "file"
    }  # fmt: skip


def test_a_file_that_is_no_dump_exits_65_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "_dump_0").write_bytes(b"\x80\x02cos\nsystem\n.")
    assert run(["explain", str(tmp_path / "_dump_0")]) == 65
    out, err = capsys.readouterr()
    assert out == ""
    assert "_dump_0" in err
    assert "unsafe_pickle" in err


def test_a_node_map_adds_the_node_of_each_named_rank(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rank,) = generate(4).injected
    (tmp_path / "nodes").write_text(json.dumps({"n-7": [rank], "n-8": [rank + 1]}), encoding="utf-8")
    assert run(["explain", "--json", "--nodes", str(tmp_path / "nodes"), *files]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["nodes"], document["findings"][0]["node"]) == (["n-7"], "n-7")


@pytest.mark.parametrize("body", ["[", "[]", '{"n-7": 3}', '{"n-7": ["x"]}', '{"n-7": [0], "n-8": [0]}'])
def test_a_node_map_of_another_shape_exits_65(
    body: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes").write_text(body, encoding="utf-8")
    assert run(["explain", "--nodes", str(tmp_path / "nodes"), *files]) == 65
    assert "bad_node_map" in capsys.readouterr().err
