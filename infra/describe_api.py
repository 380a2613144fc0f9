"""Writes the API's description to docs/openapi.json."""

from __future__ import annotations

import json
from pathlib import Path

from faultbridge.api.describe import description

TARGET = Path(__file__).resolve().parents[1] / "docs" / "openapi.json"

if __name__ == "__main__":
    TARGET.write_text(json.dumps(description(), indent=2) + "\n", encoding="utf-8")
    print(TARGET)
