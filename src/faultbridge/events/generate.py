"""Write the schemas and the reference page from the models, check them, or release them.

python -m faultbridge.events.generate            write schemas/ and docs/reference/events.md
python -m faultbridge.events.generate --check    say what would break a customer; exit 1 when anything would
python -m faultbridge.events.generate --release  fix today's schemas and samples in the manifest, for ever
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from faultbridge.events.gate import gate
from faultbridge.events.library import Library
from faultbridge.events.page import page


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description="event schemas from the models")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on what would break a customer")
    parser.add_argument("--release", action="store_true", help="fix schemas and samples in the manifest")
    options = parser.parse_args(arguments)
    library = Library(options.root / "schemas")
    if options.check:
        return _check(library)
    _write(library, options.root / "docs" / "reference" / "events.md")
    if options.release:
        sys.stdout.writelines(f"released {key}\n" for key in library.release())
    return 0


def _check(library: Library) -> int:
    found = gate(library)
    sys.stderr.writelines(f"{problem}\n" for problem in found)
    return 1 if found else 0


def _write(library: Library, reference: Path) -> None:
    for path, text in [*library.generated(), (reference, page())]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
