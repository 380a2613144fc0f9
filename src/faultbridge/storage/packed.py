"""Packed values: JSON that is compressed to one text, because DynamoDB charges for reads and writes by size."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, cast


def pack(value: object) -> str:
    """Return a JSON object as compressed text; equal values give equal texts."""
    packed = gzip.compress(json.dumps(value, separators=(",", ":")).encode(), mtime=0)
    return base64.b64encode(packed).decode()


def unpack(text: str) -> dict[str, Any]:
    """Return the JSON object of a text that `pack` made."""
    return cast("dict[str, Any]", json.loads(gzip.decompress(base64.b64decode(text))))
