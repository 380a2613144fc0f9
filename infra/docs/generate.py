"""Writes every generated reference page, or lists the pages that are out of date.

python -m infra.docs.generate            write docs/reference
python -m infra.docs.generate --check    write nothing; exit 1 and name each page that differs
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.docs import (
    aws_calls,
    case_file,
    catalog,
    cli,
    events,
    http_api,
    metrics,
    policy,
    rooms,
    runbooks,
    settings,
    sources,
    state_machines,
)
from infra.docs.asyncapi import asyncapi_document
from infra.docs.event_schemas import event_schemas_template
from infra.docs.openapi import openapi_document

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    **cli.pages(),
    **catalog.pages(),
    **http_api.pages(),
    **runbooks.pages(),
    "events.md": events.generate,
    "event-parts.md": events.parts,
    "rooms.md": rooms.generate,
    "aws-calls.md": aws_calls.generate,
    "../policy.md": policy.generate,
    "../../schemas/policy/v1.json": policy.json_schema,
    "../../schemas/job-report/v1.json": http_api.job_report_schema,
    "../../infra/event-schemas.yaml": event_schemas_template,
    "../../schemas/asyncapi.json": lambda: json.dumps(asyncapi_document(), indent=2) + "\n",
    "../../src/faultbridge/serve/casefile/verify_case.py": case_file.verifier,
    "metrics.md": metrics.generate,
    "openapi.json": lambda: json.dumps(openapi_document(), indent=2) + "\n",
    "sources.md": sources.generate,
    "settings.md": settings.generate,
    "node-status.md": state_machines.node,
    "case-status.md": state_machines.case,
    "cluster-status.md": state_machines.cluster,
    "replacement-execution.md": state_machines.execution,
}


def stale() -> list[str]:
    """Return the names of pages whose committed text differs from what the code generates now."""
    return [name for name, make in PAGES.items() if _committed(REFERENCE / name) != make()]


def write() -> None:
    """Write every page, the schemas, and the hashes in the verifier; delete pages that are generated no more."""
    for name in committed() - set(PAGES):
        (REFERENCE / name).unlink()
    for name, make in PAGES.items():
        (REFERENCE / name).parent.mkdir(parents=True, exist_ok=True)
        (REFERENCE / name).write_text(make(), encoding="utf-8")


def committed() -> set[str]:
    """Return the names of all files in the folder of generated pages."""
    return {path.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("*") if path.is_file()}


def _committed(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description="write the generated reference pages")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is out of date")
    if parser.parse_args(arguments).check:
        found = stale()
        sys.stderr.writelines(f"docs/reference/{name} is out of date: run make docs-reference\n" for name in found)
        return 1 if found else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
