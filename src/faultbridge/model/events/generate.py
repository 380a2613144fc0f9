"""The command that generates the event schemas and their reference page, and checks or releases them.

python -m faultbridge.model.events.generate            write schemas/ and docs/reference/events.md
python -m faultbridge.model.events.generate --check    print each problem that the gate finds; exit 1 if there is one
python -m faultbridge.model.events.generate --release  also add the schemas and samples to the manifest, permanently
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from faultbridge.model.events.json_schema.gate import SchemaFolder, gate
from faultbridge.model.events.json_schema.reference_page import reference_page


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 1 if `--check` finds a problem, else 0."""
    parser = argparse.ArgumentParser(description="Generate event schemas from the models.")
    parser.add_argument("--root", type=Path, default=Path(), help="root of the repository")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on an incompatible change")
    parser.add_argument("--release", action="store_true", help="add schemas and samples to the manifest")
    options = parser.parse_args(arguments)
    folder = SchemaFolder(options.root / "schemas")
    if options.check:
        return _check(folder)
    _write(folder, options.root / "docs" / "reference" / "events.md")
    if options.release:
        sys.stdout.writelines(f"released {key}\n" for key in folder.release())
    return 0


def _check(folder: SchemaFolder) -> int:
    problems = gate(folder)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def _write(folder: SchemaFolder, page: Path) -> None:
    for path, text in [*folder.generated(), (page, reference_page())]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
