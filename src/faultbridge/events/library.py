"""The folder of schemas: what is generated, what is released, and the manifest that keeps released files as they are.

schemas/<event>/v1.json                  today's schema, generated from the models
schemas/<event>/released/1.0.json        the schema as it was released, one file a minor version
schemas/<event>/samples/1.0/<name>.json  events of that version; files are added, never changed
schemas/manifest.json                    SHA-256 of every released file
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultbridge.events.models import BY_NAME
from faultbridge.events.schemas import open_schema

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Library:
    """A folder of schemas."""

    root: Path

    def generated(self) -> Iterator[tuple[Path, str]]:
        """Yield each schema file with the text that the models give it."""
        for name, model in BY_NAME.items():
            major = model.version.partition(".")[0]
            yield self.root / name / f"v{major}.json", render(open_schema(name))

    def samples(self, name: str, version: str | None = None) -> list[Path]:
        """List the samples of an event, of one version or of all."""
        return sorted((self.root / name / "samples").glob(f"{version or '*'}/*.json"))

    def released(self, name: str) -> list[Path]:
        """List the released schemas of an event, oldest first."""
        return sorted((self.root / name / "released").glob("*.json"), key=_version_of)

    def last_released(self, name: str) -> dict[str, Any] | None:
        """Return the last schema of an event that was released, or None before the first."""
        files = self.released(name)
        return load(files[-1]) if files else None

    def frozen(self) -> list[Path]:
        """List the files that a release fixes for ever."""
        return [path for name in BY_NAME for path in (*self.released(name), *self.samples(name))]

    def manifest(self) -> dict[str, str]:
        """Read the manifest: paths below the folder, and the SHA-256 of each file when it was released."""
        path = self.root / MANIFEST
        if not path.is_file():
            return {}
        found: dict[str, str] = load(path)["files"]
        return found

    def release(self) -> list[str]:
        """Fix today's schemas and every sample not yet fixed; returns the paths that are new in the manifest."""
        for name, model in BY_NAME.items():
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
        """Name a file as the manifest does."""
        return path.relative_to(self.root).as_posix()


def render(document: object) -> str:
    """Write JSON as the files of the folder have it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def load(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _version_of(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.stem.split("."))
