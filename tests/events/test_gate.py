"""The gate over the folder of schemas: green here, and red for each thing that must never happen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultbridge.events.gate import gate
from faultbridge.events.generate import main
from faultbridge.events.library import Library, load, render
from faultbridge.events.models import BY_NAME
from faultbridge.events.page import page
from faultbridge.events.validation import problems
from tests.events.samples import FILES, LIBRARY, ROOT, label
from tests.events.validate import assert_valid_event


def test_nothing_here_would_break_a_customer() -> None:
    assert gate(LIBRARY) == []


def test_the_reference_page_says_what_the_models_say() -> None:
    assert (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_sample_is_what_a_producer_may_write(path: Path) -> None:
    assert_valid_event(load(path))


def test_each_event_that_may_concern_a_cluster_has_a_sample_of_that_level() -> None:
    nodeless = {path.parts[-4] for path in FILES if load(path)["metadata"]["node"] is None}
    assert nodeless == {
        "cluster-incident-change",
        "cluster-safety-change",
        "cluster-status-change",
        "job-change",
        "node-note-recorded",
    }


@pytest.fixture
def copy_of_schemas(tmp_path: Path) -> Library:
    """The folder of schemas, free to be spoilt."""
    shutil.copytree(LIBRARY.root, tmp_path / "schemas")
    return Library(tmp_path / "schemas")


SAMPLE = "node-status-change/samples/1.0/ordinary.json"
RELEASED = "node-status-change/released/1.0.json"


def rewrite(library: Library, key: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit a file of the folder."""
    document = load(library.root / key)
    edit(document)
    (library.root / key).write_text(render(document), encoding="utf-8")


def release_as_it_is(library: Library, key: str) -> None:
    """Make the manifest agree with a file that was edited, as if it had been released so."""
    manifest = library.manifest()
    del manifest[key]
    (library.root / "manifest.json").write_text(render({"files": manifest}), encoding="utf-8")
    library.release()


def lose_the_reason(document: dict[str, Any]) -> None:
    del document["data"]["reason"]


def test_a_released_sample_may_not_change(copy_of_schemas: Library) -> None:
    rewrite(copy_of_schemas, SAMPLE, lambda sample: sample["data"].update(reason="other"))
    assert gate(copy_of_schemas) == [f"{SAMPLE}: was released and has changed"]


def test_a_released_file_may_not_vanish(copy_of_schemas: Library) -> None:
    (copy_of_schemas.root / "node-status-change/samples/1.0/back-in-service.json").unlink()
    found = "node-status-change/samples/1.0/back-in-service.json: was released and is gone"
    assert gate(copy_of_schemas) == [found]


def test_a_new_sample_belongs_in_the_manifest(copy_of_schemas: Library) -> None:
    new = copy_of_schemas.root / "node-status-change/samples/1.0/another.json"
    shutil.copy(copy_of_schemas.root / SAMPLE, new)
    assert ["another.json: is not in the manifest" in found for found in gate(copy_of_schemas)] == [True]
    assert copy_of_schemas.release() == ["node-status-change/samples/1.0/another.json"]
    assert gate(copy_of_schemas) == []


def test_a_schema_that_is_not_what_the_models_say_is_found(copy_of_schemas: Library) -> None:
    rewrite(copy_of_schemas, "job-change/v1.json", lambda schema: schema.update(title="Job"))
    assert [found.split(":")[0] for found in gate(copy_of_schemas)] == ["job-change/v1.json"]


def test_an_old_sample_that_the_model_of_today_refuses_is_found(copy_of_schemas: Library) -> None:
    rewrite(copy_of_schemas, SAMPLE, lose_the_reason)
    release_as_it_is(copy_of_schemas, SAMPLE)
    assert any("today's model refuses it" in found for found in gate(copy_of_schemas))


def test_an_event_of_today_that_a_reader_of_the_last_release_refuses_is_found(copy_of_schemas: Library) -> None:
    def ask_for_more(schema: dict[str, Any]) -> None:
        schema["$defs"]["NodeStatusData"]["required"].append("owner")

    rewrite(copy_of_schemas, RELEASED, ask_for_more)
    release_as_it_is(copy_of_schemas, RELEASED)
    assert any("a reader of the last release refuses it" in found for found in gate(copy_of_schemas))


def test_a_field_that_the_last_release_promised_and_today_lacks_is_found(copy_of_schemas: Library) -> None:
    def promise_more(schema: dict[str, Any]) -> None:
        schema["$defs"]["NodeStatusData"]["properties"]["owner"] = {"type": "string"}

    rewrite(copy_of_schemas, RELEASED, promise_more)
    release_as_it_is(copy_of_schemas, RELEASED)
    assert gate(copy_of_schemas) == ["node-status-change: /data/owner: field removed: owner"]


def test_an_event_without_its_samples_is_found(copy_of_schemas: Library) -> None:
    shutil.rmtree(copy_of_schemas.root / "job-change" / "samples")
    missing = [found for found in gate(copy_of_schemas) if "has no sample" in found]
    assert len(missing) == 3


def test_a_sample_with_a_field_that_is_not_described_is_found(copy_of_schemas: Library) -> None:
    rewrite(copy_of_schemas, SAMPLE, lambda sample: sample["data"].update(owner="x"))
    release_as_it_is(copy_of_schemas, SAMPLE)
    found = gate(copy_of_schemas)
    assert len(found) == 1
    assert "'owner' was unexpected" in found[0]


def test_the_command_writes_checks_and_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path)]
    assert main([*root, "--check"]) == 1
    assert "differs from the models" in capsys.readouterr().err
    for name in BY_NAME:
        shutil.copytree(LIBRARY.root / name / "samples", tmp_path / "schemas" / name / "samples")
    assert main([*root, "--release"]) == 0
    assert "released node-status-change/released/1.0.json" in capsys.readouterr().out
    assert main([*root, "--check"]) == 0
    assert main([*root, "--release"]) == 0
    assert capsys.readouterr().out == ""


def test_every_schema_is_a_valid_schema_and_has_a_name_of_its_own() -> None:
    from jsonschema import Draft202012Validator

    from faultbridge.events.schemas import close, open_schema

    schemas = [open_schema(name) for name in BY_NAME]
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
        Draft202012Validator.check_schema(close(schema))
    assert len({schema["$id"] for schema in schemas}) == len(BY_NAME)


def described(node: object) -> list[str]:
    """Formats that a schema names, at any depth."""
    if isinstance(node, dict):
        own = [node["format"]] if isinstance(node.get("format"), str) else []
        return own + [one for value in node.values() for one in described(value)]
    return [one for value in node for one in described(value)] if isinstance(node, list) else []


def test_every_format_that_a_schema_names_is_asserted() -> None:
    from faultbridge.events.schemas import open_schema
    from faultbridge.events.validation import FORMATS

    used = {one for name in BY_NAME for one in described(open_schema(name))}
    assert used == set(FORMATS.checkers) == {"date-time", "uuid"}


@pytest.mark.parametrize("detail", [3, {}, {"metadata": 3}, {"metadata": {}}])
def test_what_is_no_event_is_a_problem_in_both_counter_samples(detail: object) -> None:
    assert len(problems(detail, closed=True)) == 1
    assert len(problems(detail, closed=False)) == 1


def test_a_type_of_tomorrow_is_a_problem_for_producers_only() -> None:
    detail = json.loads(FILES[0].read_text(encoding="utf-8"))
    detail["metadata"]["event_type"] = "Node Firmware Change"
    assert problems(detail, closed=False) == []
    assert len(problems(detail, closed=True)) == 1
