"""The compatibility gate accepts the committed schemas and reports every kind of problem."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultbridge.model.events.json_schema import EVENT_MODELS, problems
from infra.schemas import SchemaFolder, gate, load, main, render
from tests.events.samples import FILES, SCHEMAS, label
from tests.events.validate import assert_valid_event
from tests.loops import for_each

pytestmark = pytest.mark.slow


def test_the_committed_schemas_pass_the_gate() -> None:
    assert gate(SCHEMAS) == []


@for_each("path", FILES, ids=label)
def test_a_sample_is_valid_for_producers(path: Path) -> None:
    assert_valid_event(load(path))


def test_every_event_about_clusters_has_a_sample_without_a_node() -> None:
    nodeless = {path.parts[-4] for path in FILES if load(path)["metadata"]["node"] is None}
    assert nodeless == {
        "cluster-incident-change",
        "cluster-safety-change",
        "cluster-status-change",
        "job-change",
        "job-checkpoint-requested",
        "job-explained",
        "node-note-recorded",
    }


@pytest.fixture
def copied(tmp_path: Path) -> SchemaFolder:
    """Return a copy of the folder of schemas."""
    shutil.copytree(SCHEMAS.root, tmp_path / "schemas")
    return SchemaFolder(tmp_path / "schemas")


SAMPLE = "node-status-change/samples/1.0/ordinary.json"
RELEASED = "node-status-change/released/1.0.json"


def rewrite(folder: SchemaFolder, key: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit a file of the folder."""
    document = load(folder.root / key)
    edit(document)
    (folder.root / key).write_text(render(document), encoding="utf-8")


def accept_into_manifest(folder: SchemaFolder, key: str) -> None:
    """Update the manifest for an edited file, as if it was released in this form."""
    manifest = folder.manifest()
    del manifest[key]
    (folder.root / "manifest.json").write_text(render({"files": manifest}), encoding="utf-8")
    folder.release()


def remove_reason(document: dict[str, Any]) -> None:
    del document["data"]["reason"]


def test_a_released_sample_may_not_change(copied: SchemaFolder) -> None:
    rewrite(copied, SAMPLE, lambda sample: sample["data"].update(reason="other"))
    assert gate(copied) == [f"{SAMPLE}: was released and has changed"]


def test_a_released_file_may_not_be_removed(copied: SchemaFolder) -> None:
    (copied.root / "node-status-change/samples/1.0/back-in-service.json").unlink()
    found = "node-status-change/samples/1.0/back-in-service.json: was released and is missing"
    assert gate(copied) == [found]


def test_a_new_sample_belongs_in_the_manifest(copied: SchemaFolder) -> None:
    new = copied.root / "node-status-change/samples/1.0/another.json"
    shutil.copy(copied.root / SAMPLE, new)
    assert ["another.json: is not in the manifest" in found for found in gate(copied)] == [True]
    assert copied.release() == ["node-status-change/samples/1.0/another.json"]
    assert gate(copied) == []


def test_a_schema_that_differs_from_the_models_is_found(copied: SchemaFolder) -> None:
    rewrite(copied, "job-change/v1.json", lambda schema: schema.update(title="Job"))
    assert [found.split(":")[0] for found in gate(copied)] == ["job-change/v1.json"]


def test_a_sample_that_the_current_model_refuses_is_found(copied: SchemaFolder) -> None:
    rewrite(copied, SAMPLE, remove_reason)
    accept_into_manifest(copied, SAMPLE)
    assert any("the current model refuses it" in found for found in gate(copied))


def test_a_sample_that_the_last_release_refuses_is_found(copied: SchemaFolder) -> None:
    def require_owner(schema: dict[str, Any]) -> None:
        schema["$defs"]["NodeStatusData"]["required"].append("owner")

    rewrite(copied, RELEASED, require_owner)
    accept_into_manifest(copied, RELEASED)
    assert any("a reader of the last release refuses it" in found for found in gate(copied))


def test_a_field_removed_since_the_last_release_is_found(copied: SchemaFolder) -> None:
    def promise_owner(schema: dict[str, Any]) -> None:
        schema["$defs"]["NodeStatusData"]["properties"]["owner"] = {"type": "string"}

    rewrite(copied, RELEASED, promise_owner)
    accept_into_manifest(copied, RELEASED)
    assert gate(copied) == ["node-status-change: /data/owner: field removed: owner"]


def test_an_event_without_its_samples_is_found(copied: SchemaFolder) -> None:
    shutil.rmtree(copied.root / "job-change" / "samples")
    missing = [found for found in gate(copied) if "has no sample" in found]
    assert len(missing) == 3


def test_a_sample_with_an_undescribed_field_is_found(copied: SchemaFolder) -> None:
    rewrite(copied, SAMPLE, lambda sample: sample["data"].update(owner="x"))
    accept_into_manifest(copied, SAMPLE)
    found = gate(copied)
    assert len(found) == 1
    assert "'owner' was unexpected" in found[0]


def test_the_command_writes_checks_and_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path)]
    assert main([*root, "--check"]) == 1
    assert "differs from the models" in capsys.readouterr().err
    for name in EVENT_MODELS:
        shutil.copytree(SCHEMAS.root / name / "samples", tmp_path / "schemas" / name / "samples")
    assert main([*root, "--release"]) == 0
    assert "released node-status-change/released/1.0.json" in capsys.readouterr().out
    assert main([*root, "--check"]) == 0
    assert main([*root, "--release"]) == 0
    assert capsys.readouterr().out == ""


def test_every_schema_is_valid_and_has_its_own_id() -> None:
    from jsonschema import Draft202012Validator

    from faultbridge.model.events.json_schema import closed_form, open_schema

    schemas = [open_schema(name) for name in EVENT_MODELS]
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
        Draft202012Validator.check_schema(closed_form(schema))
    assert len({schema["$id"] for schema in schemas}) == len(EVENT_MODELS)


def formats_in(node: object) -> list[str]:
    """Return the formats in a schema, at any depth."""
    if isinstance(node, dict):
        own = [node["format"]] if isinstance(node.get("format"), str) else []
        return own + [one for value in node.values() for one in formats_in(value)]
    return [one for value in node for one in formats_in(value)] if isinstance(node, list) else []


def test_every_format_of_the_schemas_is_checked() -> None:
    from faultbridge.model.events.json_schema import FORMATS, open_schema

    used = {one for name in EVENT_MODELS for one in formats_in(open_schema(name))}
    assert used == set(FORMATS.checkers) == {"date-time", "uuid"}


@pytest.mark.parametrize("detail", [3, {}, {"metadata": 3}, {"metadata": {}}])
def test_a_value_that_is_not_an_event_is_a_problem_in_both_forms(detail: object) -> None:
    assert len(problems(detail, closed=True)) == 1
    assert len(problems(detail, closed=False)) == 1


def test_an_unknown_event_type_is_a_problem_for_producers_only() -> None:
    detail = json.loads(FILES[0].read_text(encoding="utf-8"))
    detail["metadata"]["event_type"] = "Node Firmware Change"
    assert problems(detail, closed=False) == []
    assert len(problems(detail, closed=True)) == 1
