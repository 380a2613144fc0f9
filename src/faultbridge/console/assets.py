"""Assets: the style sheet, script and icon of the console, under names that contain their hash."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from faultbridge.dataclass import dataclass

FOLDER = Path(__file__).parent / "assets"
STYLE, SCRIPT, ICON = "console.css", "console.js", "icon.svg"
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A style sheet, script or icon that pages load."""

    name: str
    text: str

    @property
    def media_type(self) -> str:
        """Return the media type of the file, for the header `Content-Type`."""
        return _MEDIA_TYPES[Path(self.name).suffix]

    @property
    def hashed_name(self) -> str:
        """Return the file name with a hash of the text. Browsers may cache a file of this name forever."""
        stem, suffix = self.name.rsplit(".", 1)
        return f"{stem}-{hashlib.sha256(self.text.encode()).hexdigest()[:12]}.{suffix}"

    @property
    def source_hash(self) -> str:
        """Return the hash that a content security policy lists to allow this text inside a page."""
        return f"sha256-{base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode()}"


@cache
def asset(name: str) -> Asset:
    """Return the style sheet, script or icon with this file name."""
    return Asset(name, (FOLDER / name).read_text(encoding="utf-8"))


def by_hashed_name(name: str) -> Asset | None:
    """Return the asset with this hashed name; None if the name is unknown or of an earlier version."""
    return next((one for one in map(asset, (STYLE, SCRIPT, ICON)) if one.hashed_name == name), None)
