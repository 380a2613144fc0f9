"""The reader's kit stands alone: pydantic and nothing else, and the producers' half without even that."""

from __future__ import annotations

from pathlib import Path

import pytest

import faultbridge.events as kit
from tests.architecture.project import PACKAGE, imports
from tests.events.alone import link_pydantic, python
from tests.events.samples import FILES, LIBRARY

READ = """
import json, pathlib
from faultbridge.events import read, read_envelope
for path in sys.argv[1:]:
    detail = pathlib.Path(path).read_text(encoding="utf-8")
    print(type(read(detail)).__name__, type(read_envelope({"detail": json.loads(detail)})).__name__)
ours = {name.split(".")[1] for name in sys.modules if name.startswith("faultbridge.")}
assert ours == {"events"}, ours
"""
WIRE = """
from faultbridge.events.wire import body_of, detail_of
assert body_of(detail_of('{"data":{},"metadata":{}}', "raw")) == '{"data":{},"metadata":{}}'
assert "pydantic" not in sys.modules
"""
KIT = (
    "base",
    "case",
    "cluster",
    "cluster_words",
    "envelope",
    "fault",
    "job",
    "node",
    "note",
    "parts",
    "reading",
    "registry",
)
KIT_MORE = ("replacement", "upcasters", "words", "__init__")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a customer's Lambda function has it."""
    return link_pydantic(tmp_path_factory.mktemp("alone"))


def test_a_customers_function_reads_every_sample_with_pydantic_alone(folder: Path) -> None:
    told = python(folder, READ, *map(str, FILES)).splitlines()
    assert len(told) == len(FILES)
    assert {line.split()[0] for line in told} == set(kit.__all__) & {line.split()[0] for line in told}


def test_publishing_needs_no_models(folder: Path) -> None:
    python(folder, WIRE)


@pytest.mark.parametrize("name", [*KIT, *KIT_MORE])
def test_the_kit_imports_itself_and_pydantic_only(name: str) -> None:
    ours = {one for one in imports(PACKAGE / "events" / f"{name}.py") if one.startswith("faultbridge")}
    assert {one for one in ours if not one.startswith("faultbridge.events")} == set()


def test_every_name_of_the_kit_is_there_and_others_are_named_as_missing() -> None:
    assert [name for name in kit.__all__ if not isinstance(getattr(kit, name), object)] == []
    assert set(kit._HOME_OF) == set(kit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'NodeMoodChange'"):
        _ = kit.NodeMoodChange  # type: ignore[attr-defined]  # the point of the test


def test_samples_are_where_the_kit_looks_for_them() -> None:
    assert LIBRARY.root.is_dir()
