"""The folder schemas/: generated and released schemas, samples, and the manifest.

schemas/<event>/v1.json                  current schema, generated from the model
schemas/<event>/released/1.0.json        schema as released, one file for each minor version
schemas/<event>/samples/1.0/<name>.json  sample events of a version; files are added, never changed
schemas/manifest.json                    SHA-256 of every released schema and sample
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultbridge.events.json_schema.build import EVENT_MODELS, open_schema

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
