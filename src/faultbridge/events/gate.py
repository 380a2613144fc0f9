"""The compatibility gate: what must hold of the folder of schemas before a change is merged.

Every sample ever released is read by today's models; today's samples are read by the last released schemas; what
differs between the two is in the table of allowed changes; nothing that was released has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from faultbridge.events.compatibility import breaking
from faultbridge.events.envelope import Event, EventStub, UntypedEvent
from faultbridge.events.library import Library, digest, load
from faultbridge.events.models import BY_NAME
from faultbridge.events.reading import read
from faultbridge.events.schemas import open_schema
from faultbridge.events.upcasters import upcast
from faultbridge.events.validation import line, problems, validator_of

WANTED = ("minimal", "ordinary", "largest")


def gate(library: Library) -> list[str]:
    """Say what would break a customer, one line each; nothing when all is well."""
    checks = (drift, changed_releases, unreadable_samples, unsampled, breaks_readers, breaks_promises)
    return [problem for check in checks for problem in check(library)]


def drift(library: Library) -> Iterator[str]:
    """Find schema files that are not what the models say."""
    for path, text in library.generated():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield f"{library.key(path)}: differs from the models (run python -m faultbridge.events.generate)"


def changed_releases(library: Library) -> Iterator[str]:
    """Find released files that were changed or removed, and files that were never released."""
    manifest = library.manifest()
    for key, wanted in manifest.items():
        path = library.root / key
        if not path.is_file():
            yield f"{key}: was released and is gone"
        elif digest(path) != wanted:
            yield f"{key}: was released and has changed"
    for path in library.frozen():
        if library.key(path) not in manifest:
            yield f"{library.key(path)}: is not in the manifest (run python -m faultbridge.events.generate --release)"


def unreadable_samples(library: Library) -> Iterator[str]:
    """Find samples of any version that today's models, or today's schema, do not take."""
    for name, model in BY_NAME.items():
        for path in library.samples(name):
            yield from (f"{library.key(path)}: {problem}" for problem in _reads(path, model))


def _reads(path: Path, model: type[Event]) -> Iterator[str]:
    detail = load(path)
    try:
        event = read(detail)
    except ValueError as error:
        yield f"today's model refuses it: {' '.join(str(error).split())}"
        return
    if not isinstance(event, UntypedEvent if model is EventStub else model):
        yield f"is read as {type(event).__name__}"
    yield from problems(upcast(detail), closed=False)


def unsampled(library: Library) -> Iterator[str]:
    """Find events without the samples that each must have, and samples that no producer may write."""
    for name, model in BY_NAME.items():
        samples = library.samples(name, model.version)
        missing = set(WANTED) - {path.stem for path in samples} if model is not EventStub else set()
        yield from (f"{name}: has no sample {want!r} of version {model.version}" for want in sorted(missing))
        for path in samples:
            yield from (f"{library.key(path)}: {problem}" for problem in problems(load(path), closed=True))


def breaks_readers(library: Library) -> Iterator[str]:
    """Find samples of today that a reader of the last released schema does not take."""
    for name, model in BY_NAME.items():
        released = library.last_released(name)
        if released is None:
            continue
        for path in library.samples(name, model.version):
            for error in validator_of(released).iter_errors(load(path)):
                yield f"{library.key(path)}: a reader of the last release refuses it: {line(error)}"


def breaks_promises(library: Library) -> Iterator[str]:
    """Find differences to the last released schema that are not in the table of allowed changes."""
    for name in BY_NAME:
        released = library.last_released(name)
        if released is not None:
            yield from (f"{name}: {change}" for change in breaking(released, open_schema(name)))
