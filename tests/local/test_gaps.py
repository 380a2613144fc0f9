"""Every gap is documented and still open in the pinned emulator, and its patch works as stated."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.aws.dynamodb import Placeholders, range_expression, sort_key_bounds
from faultbridge.local.environment import DEFAULT_PORTS, compute_plane_environment, event_plane_environment
from faultbridge.local.gaps import dynamodb, patching
from faultbridge.local.gaps.lambdas import error_name
from faultbridge.local.stack import lifecycle
from faultbridge.local.stack.files import StackFolder
from tests.loops import for_each

MODULES = (*patching.EVENT_PLANE, *patching.COMPUTE_PLANE)
GAPS = [(module, gap.name) for module in MODULES for gap in patching.gaps_of((module,))]

# In a separate process, because importing an emulator starts threads and reads the environment.
PROBE = """
import json, sys
from faultbridge.local.gaps import patching
found = {}
for gap in patching.gaps_of(tuple(sys.argv[1:])):
    missing = []
    for private in gap.private_names:
        try:
            patching.resolve(private)
        except LookupError as error:
            missing.append(str(error))
    found[gap.name] = {"missing": missing, "names": len(gap.private_names), "open": not missing and gap.is_open()}
print("PROBED" + json.dumps(found))
"""


def probe(folder: Path, environment: dict[str, str], modules: tuple[str, ...]) -> dict[str, dict[str, object]]:
    ended = subprocess.run(
        [sys.executable, "-c", PROBE, *modules],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, dict[str, object]] = json.loads(ended.stdout.partition("PROBED")[2])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> StackFolder:
    folder = StackFolder(tmp_path)
    for name in ("tmp", "state", "s3"):
        (folder.scratch / name).mkdir(parents=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("plane", ["event-plane", "compute-plane"])
def test_every_gap_is_still_open_and_every_replaced_name_exists(folder: StackFolder, plane: str) -> None:
    environment, modules = {
        "event-plane": (event_plane_environment(DEFAULT_PORTS, folder, ""), patching.EVENT_PLANE),
        "compute-plane": (compute_plane_environment(DEFAULT_PORTS, folder, ""), patching.COMPUTE_PLANE),
    }[plane]
    found = probe(folder.root, environment, modules)
    assert set(found) == {gap.name for gap in patching.gaps_of(modules)}
    for name, result in found.items():
        assert result["names"], name
        assert result["missing"] == [], name
        assert result["open"] is True, f"{name}: the emulator does this now; delete the gap"


def test_every_gap_module_is_applied_to_exactly_one_plane() -> None:
    modules = {file.stem for file in Path(patching.__file__).parent.glob("*.py")} - {"__init__", "patching"}
    assert sorted(MODULES) == sorted(modules)
    assert len({name for _, name in GAPS}) == len(GAPS)


@for_each(("module", "name"), GAPS)
def test_a_gap_states_what_aws_does_what_the_emulator_does_and_what_the_patch_does(module: str, name: str) -> None:
    text = (Path(patching.__file__).parent / f"{module}.py").read_text().split('"""')[1]
    paragraph = text.partition(f"\n`{name}`\n")[2].partition("\n\n")[0]
    emulator = "MiniStack" if module in patching.EVENT_PLANE else "moto"
    for label in ("AWS: ", f"\n{emulator}: ", "\nHere: "):
        assert label in paragraph


@for_each("name", [name for _, name in GAPS])
def test_a_gap_is_listed_in_the_documentation(name: str) -> None:
    assert f"| `{name}` |" in (Path(__file__).parents[2] / "docs" / "embedded-stack.md").read_text()


def test_the_project_pins_exactly_the_emulator_versions_that_the_gaps_need() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for name, version in lifecycle.PINNED.items():
        assert any(line.strip().startswith(f'"{name}') and f"=={version}" in line for line in project.splitlines())


def test_a_name_that_the_emulator_lacks_is_an_error() -> None:
    with pytest.raises(LookupError, match="no_such_name"):
        patching.resolve("json:no_such_name")
    with pytest.raises(LookupError, match="no_such_key"):
        patching.replace("os:environ|no_such_key", lambda old: old)


@pytest.mark.parametrize("name", ["json.no_such_module:Name", "no_such_package.models:Name|attribute"])
def test_a_name_in_a_module_that_the_emulator_lacks_is_the_same_error(name: str) -> None:
    with pytest.raises(LookupError, match=f"the emulator has no {re.escape(name)}"):
        patching.resolve(name)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", "Runtime.HandlerError"),
        ("some print\nTraceback (most recent call last):\n  File x\n    raise A\nValueError: no\n", "ValueError"),
        ("Traceback (most recent call last):\n  File x\n    raise A\nours.errors.Lost: one\nValue: two\n", "Lost"),
        ("Traceback (most recent call last):\n  File x\n    raise A\nKeyboardInterrupt", "KeyboardInterrupt"),
        (
            "Traceback (most recent call last):\n  a\nKeyError: 1\n\nDuring handling of the above exception, another "
            "exception occurred:\n\nTraceback (most recent call last):\n  b\nours.Second: x",
            "Second",
        ),
    ],
)
def test_an_error_has_the_name_of_its_class(log: str, expected: str) -> None:
    assert error_name(log) == expected


Record = dict[str, Any]


def accepted(records: list[Record], mapping: Record) -> list[Record]:
    return [record for record in records if record["entry"]]


def batches(stream: list[Record], limit: int) -> Iterator[list[Record]]:
    """Yield the emulator's batches; its position advances by the length of each batch."""

    def read(_table: str, position: int, count: int) -> list[Record]:
        return stream[position : position + count]

    since = partial(dynamodb._with_full_batches, read, accepted)
    position = 0
    for _ in dynamodb._storing_mapping(lambda: iter([("account", "region", {"UUID": "m"})])):
        while batch := since("table", position, limit):
            yield batch
            position += len(batch)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 8))
def test_every_batch_but_the_last_is_full_and_no_record_is_omitted(entries: list[bool], limit: int) -> None:
    stream = [{"number": number, "entry": entry} for number, entry in enumerate(entries)]
    found = list(batches(stream, limit))
    assert [record for batch in found for record in batch] == stream
    sizes = [len(accepted(batch, {})) for batch in found]
    assert all(size == limit for size in sizes[:-1])
    assert all(size <= limit for size in sizes)


def test_a_read_without_a_mapping_is_not_changed() -> None:
    since = partial(dynamodb._with_full_batches, lambda _table, _position, limit: [{"entry": False}] * limit, accepted)
    assert len(since("table", 0, 3)) == 3


keys = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=4)


@given(keys, keys, st.none() | keys, st.none() | keys, keys)
def test_a_key_range_of_the_adapter_is_compared_correctly(
    pk: str, prefix: str, after: str | None, up_to: str | None, sk: str
) -> None:
    bounds = sort_key_bounds(prefix, after, up_to)
    placeholders = Placeholders()
    expression = range_expression(("pk", pk), "sk", bounds, placeholders)
    arguments = placeholders.arguments()
    evaluate = partial(dynamodb._with_direct_comparison, _never)
    names, values = arguments["ExpressionAttributeNames"], arguments["ExpressionAttributeValues"]
    for found in (pk, pk + "x"):
        item = {"pk": {"S": found}, "sk": {"S": sk}}
        within = bounds is None or bounds[0] <= sk <= bounds[1]
        assert evaluate(expression, item, values, names, slot="KeyConditionExpression") is (found == pk and within)


def test_the_emulator_evaluates_every_other_expression() -> None:
    evaluate = partial(dynamodb._with_direct_comparison, lambda *_arguments: True)
    assert evaluate("attribute_not_exists(#0)", {}, {}, {"#0": "pk"}) is True
    assert evaluate("begins_with(#0, :0)", {}, {}, {}, slot="KeyConditionExpression") is True


def _never(*_arguments: object) -> bool:
    raise AssertionError
