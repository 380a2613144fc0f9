"""Lists the versions of the documentation that a folder contains, one site in each subfolder.

python -m infra.docs_versions FOLDER    write versions.json for the version menu, and a page that opens the newest
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

NAME = re.compile(r"\d+(?:\.\d+){1,2}|dev")
DEVELOPMENT = "dev"
LATEST = "latest"
REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>Faultbridge</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">Faultbridge {version}</a>
"""


def versions(folder: Path) -> list[str]:
    """Return the versions in a folder, newest first; the development version is last."""
    found = [path.parent.name for path in folder.glob("*/index.html") if NAME.fullmatch(path.parent.name)]
    return sorted(found, key=_order, reverse=True)


def write_index(folder: Path) -> list[str]:
    """Write the list of versions and the page that opens the newest, and return the versions."""
    found = versions(folder)
    if not found:
        raise SystemExit(f"no version of the documentation in {folder}; run make docs-version VERSION=1.0")
    rows = [{"version": one, "title": one, "aliases": [LATEST] if one == found[0] else []} for one in found]
    (folder / "versions.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(REDIRECT.format(version=found[0]), encoding="utf-8")
    return found


def _order(version: str) -> tuple[int, ...]:
    return () if version == DEVELOPMENT else tuple(map(int, version.split(".")))


if __name__ == "__main__":
    sys.stdout.writelines(f"{sys.argv[1]}/{one}/index.html\n" for one in write_index(Path(sys.argv[1])))
