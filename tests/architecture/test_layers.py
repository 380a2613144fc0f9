"""Each module imports only rooms and packages that the table of layers permits."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.architecture.project import (
    FUNCTIONS,
    PACKAGE,
    imports,
    lambda_files,
    module_file,
    modules,
    not_in_lambda,
    reachable,
    relative,
)

AWS = frozenset({"boto3", "botocore"})
POWERTOOLS = frozenset({"aws_lambda_powertools"})
JINJA = frozenset({"jinja2", "markupsafe"})
KUBERNETES = frozenset({"httpx2", "lightkube"})


@dataclass(frozen=True)
class Layer:
    """What a room may import: other rooms, and distributions from outside; a free room imports what it needs."""

    ours: frozenset[str]
    theirs: frozenset[str]
    free: bool

    @classmethod
    def of(cls, row: dict[str, Any]) -> Layer:
        return cls(
            frozenset({row["room"], *row.get("imports", ())}),
            frozenset(row.get("packages", ())),
            bool(row.get("free", False)),
        )


ROWS = yaml.safe_load((Path(__file__).parent / "layers.yaml").read_text(encoding="utf-8"))
LAYERS = {row["room"]: Layer.of(row) for row in ROWS}


def part(path: Path) -> str:
    """Return the top-level part of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def ours(path: Path) -> set[str]:
    """Return the parts of the package that a file imports."""
    names = {name for name in imports(path) if module_file(name) and name != "faultbridge"}
    return {name.split(".")[1] for name in names}


def theirs(path: Path) -> set[str]:
    """Return the distributions from outside that a file imports, by their top-level name."""
    tops = {name.split(".")[0] for name in imports(path)}
    return tops - sys.stdlib_module_names - {"faultbridge", "__future__", ""}


FILES = modules(PACKAGE)


# One test for all files: a test for each of a thousand files takes longer than what it checks.
def test_a_module_imports_only_what_its_layer_may() -> None:
    assert {part(path) for path in FILES} - set(LAYERS) == set(), "rooms without a row in layers.yaml"
    bound = [(path, layer) for path in FILES if not (layer := LAYERS[part(path)]).free]
    inside = {relative(path): extra for path, layer in bound if (extra := ours(path) - layer.ours)}
    outside = {relative(path): extra for path, layer in bound if (extra := theirs(path) - layer.theirs)}
    assert inside == {}, "parts of the package beyond the layer"
    assert outside == {}, "outside distributions beyond the layer"


def test_only_adapters_the_installer_and_the_embedded_stack_connect_to_aws() -> None:
    others = [path for path in FILES if part(path) not in {"adapters", "install", "local"}]
    assert {relative(path): found for path in others if (found := theirs(path) & AWS)} == {}


def test_no_module_uses_boto3_resources_or_the_tracer() -> None:
    banned = re.compile(r"\.resource\(|import Tracer")
    files = modules(PACKAGE, FUNCTIONS)
    assert [relative(path) for path in files if banned.search(path.read_text(encoding="utf-8"))] == []


def test_no_handler_reaches_what_the_build_leaves_out() -> None:
    left_out = set(not_in_lambda())
    hits = {
        relative(path): relative(by)
        for path, by in lambda_files().items()
        if by and any(path.is_relative_to(PACKAGE / name) for name in left_out)
    }
    assert not hits, "file: the file that imports it"


def test_handlers_import_only_what_the_layer_or_the_runtime_brings() -> None:
    brought = AWS | POWERTOOLS | KUBERNETES | JINJA | {"cronsim", "jmespath", "msgspec", "typing_extensions"}
    hits = {relative(path): extra for path in lambda_files() if (extra := theirs(path) - brought)}
    assert not hits


def test_pydantic_and_jsonschema_stay_off_the_path_of_the_handlers() -> None:
    hits = {relative(p) for p in lambda_files() if theirs(p) & {"pydantic", "jsonschema", "yaml"}}
    assert not hits


def test_only_the_kubernetes_adapter_imports_its_client() -> None:
    hits = {relative(path) for path in FILES if theirs(path) & KUBERNETES and part(path) != "local"}
    assert {hit for hit in hits if "/adapters/kubernetes/" not in hit} == set()


def test_no_handler_loads_the_kubernetes_client_before_a_cluster_needs_it() -> None:
    """Only some functions have the layer, and its import takes a quarter of a second."""
    starts = [
        *FUNCTIONS.glob("*/handler.py"),
        *modules(PACKAGE / "serve" / "entrypoints"),
        PACKAGE / "adapters" / "aws" / "ports.py",
    ]
    assert [relative(path) for path in reachable(starts, at_once=True) if theirs(path) & KUBERNETES] == []


def test_only_the_console_imports_the_template_engine() -> None:
    """Only the function of the console has the layer with it."""
    handlers = [path for path in FUNCTIONS.glob("*/handler.py") if path.parent.name != "console"]
    others = [*handlers, *(path for path in modules(PACKAGE / "serve" / "entrypoints") if path.stem != "console")]
    assert {relative(path) for path in reachable(others, at_once=True) if theirs(path) & JINJA} == set()


def test_no_room_imports_a_room_that_imports_it() -> None:
    """The table lists rooms from the domain outward, so there is no cycle."""
    order = {name: place for place, name in enumerate(LAYERS)}
    upward = {(part(path), room) for path in FILES for room in ours(path) if not LAYERS[part(path)].free}
    assert {(room, other) for room, other in upward if order[other] > order[room]} == set()
