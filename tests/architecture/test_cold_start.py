"""What a process of ingest loads before its first record: every module and class extends a cold start."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

from tests.architecture.project import FUNCTIONS, ROOT, parse

LOADED = """
import gc, json, sys
sys.path[:0] = sys.argv[1:]
from handler import handler
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.application import from_environment
wire_ingest(from_environment())
json.dump([gc.get_threshold()[0], sorted(sys.modules)], sys.stdout)
"""
NOT_LOADED = (
    "aws_lambda_powertools",
    "boto3",
    "multiprocessing",
    "s3transfer",
    "statistics",
    "faultbridge.serve.ingest.canary",
    "faultbridge.serve.ingest.rejects",
    "faultbridge.repair.jobs",
    "faultbridge.record.ports.compute",
    "faultbridge.record.ports.objects",
    "faultbridge.repair.registry",
    "faultbridge.model.storage.findings",
)


def test_ingest_loads_only_what_most_first_records_need() -> None:
    needed = ("TABLE", "BUCKET", "QUEUE_URL", "STACK", "STACK_ID")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(FUNCTIONS / "ingest"), str(ROOT / "src")],
        env={f"FAULTBRIDGE_{name}": "test" for name in needed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    threshold, modules = json.loads(done.stdout)
    assert [name for name in modules if name.startswith(NOT_LOADED)] == []
    assert threshold == 100_000


def test_every_handler_imports_first_the_module_that_makes_the_collector_run_less_often() -> None:
    for handler in FUNCTIONS.glob("*/handler.py"):
        modules = [node.module or "" for node in parse(handler).body if isinstance(node, ast.ImportFrom)]
        first = next(name for name in modules if name.startswith("faultbridge."))
        assert first == "faultbridge.serve.application", handler
