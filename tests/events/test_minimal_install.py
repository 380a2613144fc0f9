"""Reading events needs only pydantic; publishing them does not even need pydantic."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

import pytest

import faultbridge.model.events as kit
from tests.architecture.project import PACKAGE, imports, module_file
from tests.events.minimal_install import link_packages, python
from tests.events.samples import FILES, SCHEMAS

READ = """
import json, pathlib
from faultbridge.model.events import read, read_envelope
for path in sys.argv[1:]:
    detail = pathlib.Path(path).read_text(encoding="utf-8")
    print(type(read(detail)).__name__, type(read_envelope({"detail": json.loads(detail)})).__name__)
ours = {name for name in sys.modules if name.startswith("faultbridge.")}
outside = {name for name in ours if not name.startswith("faultbridge.model.events")}
assert outside == {"faultbridge.model", "faultbridge.model.enums", "faultbridge.model.fault_enums"}, outside
"""
WIRE = """
from faultbridge.model.events.wire import body_of, detail_of
assert body_of(detail_of('{"data":{},"metadata":{}}', "raw")) == '{"data":{},"metadata":{}}'
assert "pydantic" not in sys.modules
"""
ENUMS = {"faultbridge.model.enums", "faultbridge.model.fault_enums"}
KIT = (
    "__init__",
    "case",
    "cluster",
    "enums",
    "envelope",
    "job",
    "node",
    "parts",
    "reading",
    "registry",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages of a customer's Lambda function."""
    return link_packages(tmp_path_factory.mktemp("alone"))


def test_a_function_with_only_pydantic_reads_every_sample(folder: Path) -> None:
    lines = python(folder, READ, *map(str, FILES)).splitlines()
    assert len(lines) == len(FILES)
    assert {line.split()[0] for line in lines} == set(kit.__all__) & {line.split()[0] for line in lines}


def test_publishing_needs_no_models(tmp_path: Path) -> None:
    assert python(link_packages(tmp_path, ["msgspec"]), WIRE) == ""


@pytest.mark.parametrize("name", KIT)
def test_the_consumer_kit_imports_only_itself_and_pydantic(name: str) -> None:
    ours = {one for one in imports(PACKAGE / "model" / "events" / f"{name}.py") if module_file(one)}
    assert {one for one in ours if not one.startswith("faultbridge.model.events")} - ENUMS == set()


@pytest.mark.parametrize("name", ["enums", "fault_enums"])
def test_the_enumerations_import_only_the_standard_library(name: str) -> None:
    assert imports(PACKAGE / "model" / f"{name}.py") <= {"__future__", "__future__.annotations", "enum", "enum.StrEnum"}


def test_the_kit_exports_its_names_and_rejects_others() -> None:
    assert [name for name in kit.__all__ if not isinstance(getattr(kit, name), type | FunctionType)] == []
    assert set(kit._MODULE_OF) == set(kit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'NodeMoodChange'"):
        _ = kit.NodeMoodChange  # type: ignore[attr-defined]  # the point of the test


def test_the_folder_of_samples_exists() -> None:
    assert SCHEMAS.root.is_dir()
