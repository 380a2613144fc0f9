"""The case file of each simulated case proves itself, and a changed one is refused with its reason."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from faultbridge.serve.casefile.collect import VERIFIER, pack
from faultbridge.serve.casefile.verify_case import PUBLISHED, Defect, verify
from infra.docs.case_file import published
from tests.casefile.builders import CHANGES, Members, case_files, changed, entries_of, resealed, unpack

FEW_SEEDS = (0, 8, 235)
"""235 has a release that the sweep recovers under the next number of an attempt."""
MOVED_SEED = 9_400_032
"""A device with faults moves to other nodes."""
NIGHTLY_CASES, NIGHTLY_CHANGES = 10_000, 1_000


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    return [packed for seed in FEW_SEEDS for packed in case_files(seed)]


def verdict(packed: bytes, folder: Path) -> str | None:
    """Return the defect of a case file, or None if it holds."""
    path = folder / "case.zip"
    path.write_bytes(packed)
    try:
        verify(str(path))
    except Defect as defect:
        return str(defect)
    return None


def refusals(packed: Iterator[bytes], folder: Path, most: int) -> Counter[str]:
    """Change case files in every way, assert that each is refused for its reason, and count the changes by name."""
    counted: Counter[str] = Counter()
    for number, one in enumerate(packed):
        for change, reason in CHANGES.items():
            forged = changed(one, change, Random(number))
            if forged is not None:
                defect = verdict(forged, folder)
                assert defect is not None, (number, change.__name__)
                assert re.search(reason, defect), (number, change.__name__, defect)
                counted[change.__name__] += 1
        if counted.total() >= most:
            break
    return counted


def test_every_simulated_case_proves_itself(files: list[bytes], tmp_path: Path) -> None:
    assert len(files) > 5
    assert [defect for one in files if (defect := verdict(one, tmp_path))] == []


def test_a_changed_file_is_refused_with_its_reason(files: list[bytes], tmp_path: Path) -> None:
    counted = refusals(iter(files), tmp_path, most=10_000)
    assert {name for name, count in counted.items() if count} >= {
        change.__name__ for change in CHANGES if change.__name__ != "forge_without_approval"
    }


def test_a_repair_is_judged_by_the_policy_at_its_intent_and_not_by_that_at_the_opening(tmp_path: Path) -> None:
    found = [one for one in case_files(163) if asks_and_then_no_more(unpack(one))]
    assert found
    assert [defect for one in found if (defect := verdict(one, tmp_path))] == []


def asks_and_then_no_more(members: Members) -> bool:
    """Return whether a file has a policy that requires approvals, and one that does not."""
    documents = json.loads(members["policies.json"]).values()
    return len({any(rule["approval"] for rule in one["rules"]) for one in documents}) > 1


@pytest.mark.nightly
@pytest.mark.timeout(20_000)
def test_ten_thousand_simulated_cases_prove_themselves(tmp_path: Path) -> None:
    seen = 0
    for seed in range(NIGHTLY_CASES):
        for one in case_files(seed):
            assert verdict(one, tmp_path) is None, seed
            seen += 1
        if seen >= NIGHTLY_CASES:
            break
    assert seen >= NIGHTLY_CASES


@pytest.mark.nightly
@pytest.mark.timeout(3_000)
def test_a_thousand_changed_files_are_refused(tmp_path: Path) -> None:
    packed = (one for seed in range(1_000) for one in case_files(seed))
    counted = refusals(packed, tmp_path, most=NIGHTLY_CHANGES)
    assert counted.total() >= NIGHTLY_CHANGES
    assert set(counted) == {change.__name__ for change in CHANGES}


def packed_again(members: Members) -> bytes:
    return pack({name: body for name, body in members.items() if name != "manifest.json"})


def hostile(packed: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield forged files that must be refused without a traceback, and what the verifier says about each."""
    members = unpack(packed)
    lines = members["entries.jsonl"].splitlines(keepends=True)
    case = members["case.json"].decode()
    entry = lines[0].decode()
    yield "does not follow", packed_again({**members, "entries.jsonl": b"".join([lines[1], lines[0], *lines[2:]])})
    first, second = (json.loads(line) for line in lines[:2])
    first["hash"], second["hash"] = second["hash"], first["hash"]
    swapped = [f"{json.dumps(one)}\n".encode() for one in (first, second)]
    yield "does not cover", packed_again({**members, "entries.jsonl": b"".join([*swapped, *lines[2:]])})
    twice = case.replace("{", '{"case_id": "c-another",', 1)
    yield "key twice", packed_again({**members, "case.json": twice.encode()})
    twice = entry.replace("{", '{"body": "{}",', 1)
    yield "key twice", packed_again({**members, "entries.jsonl": b"".join([twice.encode(), *lines[1:]])})
    for number in ("1e999", "NaN", "9" * 5_000, "1.5", "true", "null", '"1"'):
        changed = re.sub(r'"sequence": \d+', f'"sequence": {number}', entry, count=1)
        yield "", packed_again({**members, "entries.jsonl": b"".join([changed.encode(), *lines[1:]])})
    yield "", packed_again({**members, "case.json": b"[" * 100_000})
    yield "", packed_again({**members, "case.json": case.replace("c-", "\\ud800\\u001b[2J", 1).encode()})
    yield "", packed_again({**members, "case.json": b"\xff\xfe" + case.encode("utf-16-le")})
    yield "form.json", packed_again({**members, "form.json": members["form.json"].replace(b'"fields"', b'"Fields"')})
    yield "form.html", packed_again({**members, "form.html": b"\xff"})
    yield "history.json", packed_again({**members, "history.json": members["history.json"] + b"\n"})
    yield "missing or unknown", packed_again({**members, "\u0435ntries.jsonl": b""})
    for size in range(0, len(packed), max(1, len(packed) // 40)):
        yield "cannot be read", packed[:size]


def test_a_hostile_file_is_refused_and_its_text_does_not_control_the_terminal(
    files: list[bytes], tmp_path: Path
) -> None:
    for packed in files[:3]:
        for reason, forged in hostile(packed):
            defect = verdict(forged, tmp_path)
            assert defect is not None
            assert reason in defect
    members = unpack(files[0])
    page = members["form.html"].replace(b"<td>", b"<td>\x1b[2J1 entries hold", 1)
    (tmp_path / "case.zip").write_bytes(packed_again({**members, "form.html": page}))
    done = subprocess.run(
        [sys.executable, "-I", str(VERIFIER), "case.zip"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "\\x1b[2J1 entries hold" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("kept", [0, 1])
def test_a_file_states_which_entries_the_record_no_longer_has(kept: int, tmp_path: Path) -> None:
    for packed in case_files(8, kept=kept):
        case, form = (json.loads(unpack(packed)[name]) for name in ("case.json", "form.json"))
        assert "no entries of the case" in case["missing"]
        assert case["missing"] == form["missing"]
        assert case["missing"] in unpack(packed)["form.html"].decode()
        assert {one["name"] for one in form["fields"]} >= {"UUID", "Serial number", "Fault code"}
        assert verdict(packed, tmp_path) == case["missing"]
        forged = {**unpack(packed), "case.json": json.dumps(case | {"missing": None}).encode()}
        assert verdict(packed_again(forged), tmp_path) is not None


def test_the_same_record_gives_the_same_bytes() -> None:
    assert list(case_files(8)) == list(case_files(8))


def test_the_verifier_is_short_and_needs_only_the_standard_library(files: list[bytes], tmp_path: Path) -> None:
    source = VERIFIER.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 300
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)
    (tmp_path / "case.zip").write_bytes(files[0])
    (tmp_path / "verify_case.py").write_bytes(unpack(files[0])["verify_case.py"])
    for content, code in ((files[0], 0), (files[0][:-40], 1)):
        (tmp_path / "case.zip").write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-I", "verify_case.py", "case.zip"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


def test_the_verifier_has_the_hashes_of_the_published_members() -> None:
    assert published() == PUBLISHED, "the catalog, form.py or a table changed: run make docs-reference"


def test_the_history_has_what_other_nodes_record_about_the_device(tmp_path: Path) -> None:
    found = case_files(MOVED_SEED)
    moved = [one for one in found if len(json.loads(unpack(one)["case.json"])["starts"]) > 1]
    assert moved
    for packed in moved:
        members = unpack(packed)
        lines = json.loads(members["history.json"])
        assert len({one["node"] for one in lines}) > 1
        other = next(one for one in lines if one["node"] != json.loads(members["case.json"])["node"])
        without = [one for one in entries_of(members) if one["event"]["metadata"]["event_id"] != other["event_id"]]
        assert verdict(packed, tmp_path) is None
        defect = verdict(packed_again(resealed(members, without)), tmp_path)
        assert defect is not None
        assert re.search(r"(form|history)\.(json|html) has the line", defect), defect


def test_the_anchor_is_compared_with_the_readers_own_copy(files: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "case.zip").write_bytes(files[0])
    own = tmp_path / "anchor.json"
    own.write_bytes(unpack(files[0])["anchor.json"])
    assert verify(str(tmp_path / "case.zip"), str(own))
    own.write_bytes(own.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(Defect, match="another one than yours"):
        verify(str(tmp_path / "case.zip"), str(own))


def test_the_form_has_every_field_of_a_hardware_return(files: list[bytes]) -> None:
    for packed in files:
        form = json.loads(unpack(packed)["form.json"])
        names = {one["name"] for one in form["fields"]}
        assert names >= {"UUID", "Serial number", "PCI address", "Instance", "Instance type", "Part number"}
        assert names >= {"VBIOS version", "Driver version"}
        causes = {one["cause"]: one for one in form["causes"]}
        assert {"the operating system", "temperature or power", "a shared cause of many nodes"} <= set(causes)
        assert all(one["how"] for one in causes.values())


def test_text_of_the_record_cannot_add_markup_to_the_form(files: list[bytes]) -> None:
    for packed in files:
        assert "<script" not in unpack(packed)["form.html"].decode()
