"""Generates the event schemas, and checks or releases them.

python -m infra.schemas            write schemas/
python -m infra.schemas --check    print each problem that the gate finds; exit 1 if there is one
python -m infra.schemas --release  also add the schemas and samples to the manifest, permanently

The gate contains the checks that a change of the schemas must pass before it is merged:

- The schema files match the models.
- Released files are unchanged.
- The current models read every sample of any version.
- Every event has its required samples.
- The last released schemas accept the current samples.
- Only allowed changes were made since the last release.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from faultbridge.model.events.envelope import Event, EventStub, UntypedEvent
from faultbridge.model.events.json_schema import EVENT_MODELS, error_line, open_schema, problems, validator_of
from faultbridge.model.events.reading import read, upcast

# The folder schemas/: generated and released schemas, samples, and the manifest.
#
# schemas/<event>/v1.json                  current schema, generated from the model
# schemas/<event>/released/1.0.json        schema as released, one file for each minor version
# schemas/<event>/samples/1.0/<name>.json  sample events of a version; files are added, never changed
# schemas/manifest.json                    SHA-256 of every released schema and sample

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class SchemaFolder:
    """Reads and writes the folder of schemas; `root` is its path."""

    root: Path

    def generated(self) -> Iterator[tuple[Path, str]]:
        """Yield the path of each current schema, and its text as generated from the model."""
        for name, model in EVENT_MODELS.items():
            major = model.version.partition(".")[0]
            yield self.root / name / f"v{major}.json", render(open_schema(name))

    def samples(self, name: str, version: str | None = None) -> list[Path]:
        """Return the paths of the samples of an event, for one version or for all versions."""
        return sorted((self.root / name / "samples").glob(f"{version or '*'}/*.json"))

    def released(self, name: str) -> list[Path]:
        """Return the paths of the released schemas of an event, sorted by version."""
        return sorted((self.root / name / "released").glob("*.json"), key=_version_of)

    def last_released(self, name: str) -> dict[str, Any] | None:
        """Return the released schema of an event with the highest version, or None if none is released."""
        files = self.released(name)
        return load(files[-1]) if files else None

    def frozen(self) -> list[Path]:
        """Return the paths of the files that a release freezes: all released schemas and all samples."""
        return [path for name in EVENT_MODELS for path in (*self.released(name), *self.samples(name))]

    def manifest(self) -> dict[str, str]:
        """Return the SHA-256 of the files in the manifest, by their keys; empty if no manifest exists."""
        path = self.root / MANIFEST
        if not path.is_file():
            return {}
        files: dict[str, str] = load(path)["files"]
        return files

    def release(self) -> list[str]:
        """Write the schemas of unreleased versions, add new files to the manifest, and return their keys.

        The manifest lists released schemas and samples.
        """
        for name, model in EVENT_MODELS.items():
            target = self.root / name / "released" / f"{model.version}.json"
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(render(open_schema(name)), encoding="utf-8")
        known = self.manifest()
        new = {self.key(path): digest(path) for path in self.frozen() if self.key(path) not in known}
        text = render({"files": dict(sorted((known | new).items()))})
        (self.root / MANIFEST).write_text(text, encoding="utf-8")
        return sorted(new)

    def key(self, path: Path) -> str:
        """Return the key of a file in the manifest: its path within the folder."""
        return path.relative_to(self.root).as_posix()


def render(document: object) -> str:
    """Convert a document to JSON text in the format that the folder's files have."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def load(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _version_of(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.stem.split("."))


# Finds the changes between two versions of a schema, and determines which of them are allowed.
#
# A consumer of the last released version must be able to read current events. A current consumer must be able to read
# every event ever recorded. A change must therefore be safe in both directions. `ALLOWED` lists the safe kinds of
# change.


class ChangeKind(StrEnum):
    """The kind of a change between two schemas."""

    OPTIONAL_FIELD_ADDED = "optional field added"
    VALUE_ADDED = "value added to an open enumeration"
    TEXT_CHANGED = "title, description or example changed"
    UNIT_ADDED = "unit added where there was none"
    VERSION_RAISED = "minor version raised"
    REQUIRED_FIELD_ADDED = "required field added"
    FIELD_REMOVED = "field removed"
    FIELD_NOW_REQUIRED = "optional field is now required"
    FIELD_NOW_OPTIONAL = "required field is now optional"
    VALUE_REMOVED = "value removed from an enumeration"
    TYPE_CHANGED = "type changed"
    PATTERN_CHANGED = "pattern changed"
    FORMAT_CHANGED = "format changed"
    UNIT_CHANGED = "unit changed"
    RULE_CHANGED = "rule changed"


ALLOWED = frozenset(
    {
        ChangeKind.OPTIONAL_FIELD_ADDED,
        ChangeKind.VALUE_ADDED,
        ChangeKind.TEXT_CHANGED,
        ChangeKind.UNIT_ADDED,
        ChangeKind.VERSION_RAISED,
    }
)

# A change of any other keyword, unless it is compared separately, is RULE_CHANGED and therefore not allowed.
_KIND_BY_KEYWORD = {
    "title": ChangeKind.TEXT_CHANGED,
    "description": ChangeKind.TEXT_CHANGED,
    "examples": ChangeKind.TEXT_CHANGED,
    "type": ChangeKind.TYPE_CHANGED,
    "pattern": ChangeKind.PATTERN_CHANGED,
    "format": ChangeKind.FORMAT_CHANGED,
    "x-unit": ChangeKind.UNIT_CHANGED,
}
_COMPARED_SEPARATELY = {
    "$defs",
    "$ref",
    "properties",
    "required",
    "enum",
    "items",
    "additionalProperties",
    "anyOf",
    "x-schema-version",
}


class Change(NamedTuple):
    """One change between two schemas; `pointer` is a JSON pointer into the described event."""

    kind: ChangeKind
    pointer: str
    detail: str

    @property
    def allowed(self) -> bool:
        """Return whether the change is safe for consumers, and therefore allowed."""
        return self.kind in ALLOWED

    def __str__(self) -> str:
        """Return the change as one line of text."""
        return f"{self.pointer or '/'}: {self.kind.value}: {self.detail}"


Schema = Mapping[str, Any]


def changes(old: Schema, new: Schema) -> list[Change]:
    """Return the changes between two versions of a schema."""
    return list(_Comparison(old, new).compare(old, new, ""))


def breaking_changes(old: Schema, new: Schema) -> list[Change]:
    """Return the changes that are not allowed, because they can break a consumer."""
    return [change for change in changes(old, new) if not change.allowed]


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._roots = (old, new)

    def compare(self, old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
        old, new = _resolved(self._roots[0], old), _resolved(self._roots[1], new)
        yield from _keywords(old, new, pointer)
        yield from _enum_values(old, new, pointer)
        yield from _version(old, new, pointer)
        yield from self._fields(old, new, pointer)
        for keyword in ("items", "additionalProperties"):
            yield from self._nested(old.get(keyword), new.get(keyword), f"{pointer}/*")
        yield from self._branches(old.get("anyOf", []), new.get("anyOf", []), pointer)

    def _fields(self, old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
        before, after = old.get("properties", {}), new.get("properties", {})
        was, now = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted(set(before) - set(after)):
            yield Change(ChangeKind.FIELD_REMOVED, f"{pointer}/{name}", name)
        for name in sorted(set(after) - set(before)):
            kind = ChangeKind.REQUIRED_FIELD_ADDED if name in now else ChangeKind.OPTIONAL_FIELD_ADDED
            yield Change(kind, f"{pointer}/{name}", name)
        for name in sorted(set(before) & set(after)):
            if (name in was) != (name in now):
                kind = ChangeKind.FIELD_NOW_REQUIRED if name in now else ChangeKind.FIELD_NOW_OPTIONAL
                yield Change(kind, f"{pointer}/{name}", name)
            yield from self.compare(before[name], after[name], f"{pointer}/{name}")

    def _nested(self, old: object, new: object, pointer: str) -> Iterator[Change]:
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from self.compare(old, new, pointer)
        elif old != new:
            yield Change(ChangeKind.TYPE_CHANGED, pointer, f"{old} -> {new}")

    def _branches(self, old: list[Schema], new: list[Schema], pointer: str) -> Iterator[Change]:
        if len(old) != len(new):
            yield Change(ChangeKind.TYPE_CHANGED, pointer, f"{len(old)} alternatives -> {len(new)}")
            return
        for before, after in zip(old, new, strict=True):
            yield from self.compare(before, after, pointer)


def _resolved(root: Schema, node: Schema) -> Schema:
    reference = node.get("$ref")
    if reference is None:
        return node
    target: Schema = root["$defs"][reference.rpartition("/")[2]]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def _keywords(old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
    for keyword in sorted((set(old) | set(new)) - _COMPARED_SEPARATELY):
        before, after = old.get(keyword), new.get(keyword)
        if before == after:
            continue
        kind = _KIND_BY_KEYWORD.get(keyword, ChangeKind.RULE_CHANGED)
        if keyword == "x-unit" and before is None:
            kind = ChangeKind.UNIT_ADDED
        yield Change(kind, pointer, f"{keyword}: {before} -> {after}")


def _enum_values(old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
    before, after = old.get("enum"), new.get("enum")
    if before is None and after is None:
        return
    if before is None or after is None:
        yield Change(ChangeKind.TYPE_CHANGED, pointer, f"enum: {before} -> {after}")
        return
    for value in sorted(set(before) - set(after)):
        yield Change(ChangeKind.VALUE_REMOVED, pointer, str(value))
    for value in sorted(set(after) - set(before)):
        yield Change(ChangeKind.VALUE_ADDED, pointer, str(value))


def _version(old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
    before, after = old.get("x-schema-version"), new.get("x-schema-version")
    if before == after:
        return
    raised = (
        before
        and after
        and _version_number(before)[0] == _version_number(after)[0]
        and _version_number(before) < _version_number(after)
    )
    yield Change(
        ChangeKind.VERSION_RAISED if raised else ChangeKind.RULE_CHANGED, pointer, f"version {before} -> {after}"
    )


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


REQUIRED_SAMPLES = ("minimal", "ordinary", "largest")


def gate(folder: SchemaFolder) -> list[str]:
    """Run all checks on the schemas and samples; returns one line of text for each problem."""
    checks = (
        outdated_schemas,
        changed_releases,
        unreadable_samples,
        missing_samples,
        samples_refused_by_last_release,
        incompatible_changes,
    )
    return [problem for check in checks for problem in check(folder)]


def outdated_schemas(folder: SchemaFolder) -> Iterator[str]:
    """Yield a line for each schema file that is missing or differs from the models."""
    for path, text in folder.generated():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield f"{folder.key(path)}: differs from the models; run make schemas"


def changed_releases(folder: SchemaFolder) -> Iterator[str]:
    """Yield a line for each released file that was changed or removed, or is not in the manifest."""
    manifest = folder.manifest()
    for key, expected in manifest.items():
        path = folder.root / key
        if not path.is_file():
            yield f"{key}: was released and is missing"
        elif digest(path) != expected:
            yield f"{key}: was released and has changed"
    for path in folder.frozen():
        if folder.key(path) not in manifest:
            yield (f"{folder.key(path)}: is not in the manifest; run python -m infra.schemas --release")


def unreadable_samples(folder: SchemaFolder) -> Iterator[str]:
    """Yield the problems that the current models and schemas find in samples of any version."""
    for name, model in EVENT_MODELS.items():
        for path in folder.samples(name):
            yield from (f"{folder.key(path)}: {problem}" for problem in _reading_problems(path, model))


def _reading_problems(path: Path, model: type[Event]) -> Iterator[str]:
    detail = load(path)
    try:
        event = read(detail)
    except ValueError as error:
        yield f"the current model refuses it: {' '.join(str(error).split())}"
        return
    if not isinstance(event, UntypedEvent if model is EventStub else model):
        yield f"is read as {type(event).__name__}"
    yield from problems(upcast(detail), closed=False)


def missing_samples(folder: SchemaFolder) -> Iterator[str]:
    """Yield a line for each sample in `REQUIRED_SAMPLES` that an event lacks in its current version.

    A stub needs no sample. Also yield a line for each problem that the closed form of a schema finds in a current
    sample. The closed form allows no unknown field.
    """
    for name, model in EVENT_MODELS.items():
        samples = folder.samples(name, model.version)
        missing = set(REQUIRED_SAMPLES) - {path.stem for path in samples} if model is not EventStub else set()
        yield from (f"{name}: has no sample {stem!r} of version {model.version}" for stem in sorted(missing))
        for path in samples:
            yield from (f"{folder.key(path)}: {problem}" for problem in problems(load(path), closed=True))


def samples_refused_by_last_release(folder: SchemaFolder) -> Iterator[str]:
    """Yield the problems that the last released schemas find in current samples."""
    for name, model in EVENT_MODELS.items():
        released = folder.last_released(name)
        if released is None:
            continue
        for path in folder.samples(name, model.version):
            for error in validator_of(released).iter_errors(load(path)):
                yield f"{folder.key(path)}: a reader of the last release refuses it: {error_line(error)}"


def incompatible_changes(folder: SchemaFolder) -> Iterator[str]:
    """Yield a line for each change since the last release that could break a consumer."""
    for name in EVENT_MODELS:
        released = folder.last_released(name)
        if released is not None:
            yield from (f"{name}: {change}" for change in breaking_changes(released, open_schema(name)))


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 1 if `--check` finds a problem, else 0."""
    parser = argparse.ArgumentParser(description="Generate event schemas from the models.")
    parser.add_argument("--root", type=Path, default=Path(), help="root of the repository")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on an incompatible change")
    parser.add_argument("--release", action="store_true", help="add schemas and samples to the manifest")
    options = parser.parse_args(arguments)
    folder = SchemaFolder(options.root / "schemas")
    if options.check:
        return _check(folder)
    _write(folder)
    if options.release:
        sys.stdout.writelines(f"released {key}\n" for key in folder.release())
    return 0


def _check(folder: SchemaFolder) -> int:
    found = gate(folder)
    sys.stderr.writelines(f"{problem}\n" for problem in found)
    return 1 if found else 0


def _write(folder: SchemaFolder) -> None:
    for path, text in folder.generated():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
