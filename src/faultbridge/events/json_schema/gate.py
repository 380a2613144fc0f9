"""The compatibility gate: the checks that a change of the schemas must pass before it is merged.

- The schema files match the models.
- Released files are unchanged.
- The current models read every sample of any version.
- Every event has its required samples.
- The last released schemas accept the current samples.
- Only allowed changes were made since the last release.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from faultbridge.events.envelope import Event, EventStub, UntypedEvent
from faultbridge.events.json_schema.build import EVENT_MODELS, open_schema
from faultbridge.events.json_schema.compatibility import breaking_changes
from faultbridge.events.json_schema.folder import SchemaFolder, digest, load
from faultbridge.events.json_schema.validation import error_line, problems, validator_of
from faultbridge.events.reading import read, upcast

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
            yield f"{folder.key(path)}: differs from the models; run python -m faultbridge.events.generate"


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
            yield f"{folder.key(path)}: is not in the manifest; run python -m faultbridge.events.generate --release"


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
