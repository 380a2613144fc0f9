"""`faultbridge explain`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from faultbridge.explain.verdict.mechanisms import packaged_book
from tests.explain.builders import OWN
from tests.explain.corpus_cases import cases
from tests.explain.traces import generate


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, body in generate(4).files.items():
        (tmp_path / name).write_bytes(body)
    return [str(one) for one in tmp_path.iterdir()]


def test_the_text_names_the_rank_and_fits_80_columns(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", *files]) == 0
    out = capsys.readouterr().out
    (rank,) = generate(4).injected
    assert out.startswith("VERDICT   RESTART\n")
    assert f"\nrank {rank}: behind in " in out
    assert max(map(len, out.splitlines())) <= 80


def test_an_empty_file_has_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    assert run(["explain", str(empty)]) == 65
    assert "there is nothing to explain" in capsys.readouterr().err


def test_the_text_gives_the_file_and_line_of_the_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (case,) = (one for one in cases("blind.yaml") if one.name == "a kernel panic of a node ends the job")
    for name, body in case.files.items():
        (tmp_path / name.replace("/", "-")).write_text(body, encoding="utf-8")
    logs = [f"n-3={tmp_path}/n-3-kern.log", f"{tmp_path}/n-1-kern.log", f"{tmp_path}/job.err"]
    assert run(["explain", "--received-at", "2026-02-05T00:00:00Z", *logs]) == 0
    out = capsys.readouterr().out
    assert out.startswith("VERDICT   RESTART_WITHOUT n-3\nCAUSE     host_fault (hardware): ")
    assert "n-3-kern.log:8:" in "".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_the_json_document_has_the_documented_fields(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--json", *files]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {
        "verdict", "nodes", "domain", "mechanism", "summary", "settles", "check", "checks", "shared", "hardware",
        "symptom", "ranks", "attempts", "devices", "failed_at", "causes", "claims", "recovered", "collectives", "files",
        "skipped", "job", "repairs",
    }  # fmt: skip
    assert document["collectives"].keys() == {
        "ranks", "nodes", "findings", "waiting", "joined", "missing", "missing_blamed"
    }  # fmt: skip
    assert document["collectives"]["ranks"] == sorted(generate(4).injected)
    assert document["collectives"]["findings"][0].keys() == {
        "rank", "node", "state", "group", "description", "sequence", "operation", "waiting", "file"
    }  # fmt: skip
    assert document["causes"][0]["for"][0]["signal"].keys() == {
        "name", "trust", "role", "at", "node", "rank", "file", "line", "text", "count"
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
    collectives = document["collectives"]
    assert (collectives["nodes"], collectives["findings"][0]["node"]) == (["n-7"], "n-7")
    assert document["check"] == ["n-7"]


def test_the_node_of_a_rank_without_a_dump_is_to_be_tested_and_the_evidence_is_named(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rank,) = generate(4).injected
    (tmp_path / "nodes").write_text(json.dumps({"n-7": [rank], "n-8": [rank + 1]}), encoding="utf-8")
    others = [one for one in files if not one.endswith(f"_{rank}.json")]
    assert len(others) == len(files) - 1
    assert run(["explain", "--json", "--nodes", str(tmp_path / "nodes"), *others]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["collectives"]["findings"][0]["state"] == "no_dump"
    assert (document["check"], document["verdict"], document["nodes"]) == (["n-7"], "RESTART", [])
    (evidence,) = document["checks"]
    assert (evidence["name"], evidence["node"], evidence["rank"]) == ("collective.no_dump", "n-7", rank)
    assert run(["explain", "--nodes", str(tmp_path / "nodes"), *others]) == 0
    assert f"CHECK     n-7: test before the restart\n          n-7: rank {rank} is no_dump" in capsys.readouterr().out


@pytest.mark.parametrize(
    "body", ["[", "[]", '{"n-7": 3}', '{"n-7": [Infinity]}', '{"n-7": ["x"]}', '{"n-7": [0], "n-8": [0]}']
)
def test_a_node_map_of_another_shape_exits_65(
    body: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes").write_text(body, encoding="utf-8")
    assert run(["explain", "--nodes", str(tmp_path / "nodes"), *files]) == 65
    assert '(give a JSON object such as {"gpu-1": [0, 1]})' in capsys.readouterr().err


@pytest.mark.parametrize("name", [one.name for one in packaged_book().mechanisms])
def test_what_show_prints_as_json_is_a_file_that_check_accepts(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mechanism", "show", name, "--json"]) == 0
    (tmp_path / "own.json").write_text(capsys.readouterr().out)
    assert run(["mechanism", "check", str(tmp_path)]) == 0


@pytest.mark.parametrize("arguments", [("explain", "FILE"), ("mechanism", "list"), ("mechanism", "show", "gpu_lost")])
def test_a_folder_without_mechanisms_is_wrong_usage(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.err"
    log.write_text("error\n", encoding="utf-8")
    assert run([*(str(log) if one == "FILE" else one for one in arguments), "--mechanisms", str(tmp_path)]) == 2
    assert f"no mechanisms in {tmp_path}; expected files *.json (see " in capsys.readouterr().err


def test_a_customer_lists_shows_and_checks_mechanisms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.json"
    own.write_text(json.dumps(OWN), encoding="utf-8")
    assert run(["mechanism", "check", str(tmp_path)]) == 0
    assert run(["mechanism", "list", "--json", "--mechanisms", str(tmp_path)]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)][:2] == ["license", "gpu_lost"]
    assert run(["mechanism", "show", "gpu_lost"]) == 0
    assert "xid.79  decisive" in capsys.readouterr().out
    own.write_text(json.dumps({"signals": [{**OWN["signals"][0], "cases": ["another line"]}]}), encoding="utf-8")
    assert run(["mechanism", "check", str(tmp_path)]) == 1
    assert "own.license: no match" in capsys.readouterr().err


def test_a_mechanism_with_a_long_name_and_too_few_points_fits_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "the_license_server_of_the_site_is_away_xx"
    unexplained = {**OWN["signals"][0], "name": "own.quota", "contains": "quota", "cases": ["no quota"]}
    hint = {**OWN["mechanisms"][0], "name": name, "initiators": {"own.license": "hint"}}
    own = {"signals": [*OWN["signals"], unexplained], "mechanisms": [hint]}
    (tmp_path / "own.json").write_text(json.dumps(own), encoding="utf-8")
    log = tmp_path / "job.err"
    log.write_text("no quota\nno license server\n", encoding="utf-8")
    assert run(["explain", "--mechanisms", str(tmp_path), "--job-log", str(log)]) == 0
    out = capsys.readouterr().out
    assert "\nlikeliest mechanism, with too few points:" in out
    assert name in out
    assert max(map(len, out.splitlines())) <= 80
