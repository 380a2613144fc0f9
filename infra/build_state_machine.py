"""Write each `infra/statemachines/*.asl.yaml` as JSON, because the emulator reads only JSON."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

SOURCES = Path(__file__).parent / "statemachines"


def build(source: Path) -> Path:
    """Write one definition as JSON and return its path; raises TypeError for a date in the YAML."""
    target = source.with_suffix(".json")
    text = json.dumps(yaml.safe_load(source.read_text(encoding="utf-8")), indent=2) + "\n"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")
    return target


if __name__ == "__main__":
    for source in sorted(SOURCES.glob("*.asl.yaml")):
        build(source)
