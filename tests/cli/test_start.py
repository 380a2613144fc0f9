"""Offline commands start without the imports that take most of their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.desk import Desk

SLOW = ("pydantic", "botocore", "boto3", "rich", "yaml", "jsonschema")
SCRIPT = """
import json, sys
from faultbridge.cli.app import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(name for name in sys.modules if "." not in name)]), file=sys.stderr)
"""
XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"


def imported_by(*arguments: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    code, modules = json.loads(ran.stderr.splitlines()[-1])
    assert code == 0
    return set(modules)


@pytest.mark.parametrize("arguments", [("--help",), ("decode", "--help"), ("catalog", "xid", "79")])
def test_help_and_the_catalog_import_nothing_slow(arguments: tuple[str, ...]) -> None:
    assert imported_by(*arguments).isdisjoint(SLOW)


def test_decode_imports_nothing_slow(tmp_path: Path) -> None:
    log = tmp_path / "xid.log"
    log.write_text(XID)
    assert imported_by("decode", "--source", "kernel-log", "--node", "n-1", str(log)).isdisjoint(SLOW)


def test_a_command_on_a_stack_imports_only_what_reads_it(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path), "FAULTBRIDGE_HOME": str(tmp_path / "stacks")}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true"}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, "case", "list"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment,
    )
    code, modules = json.loads(ran.stderr.splitlines()[-1])
    assert code == 69, "there is no stack"
    assert set(modules).isdisjoint({"boto3", "jsonschema", "moto", "pydantic", "rich", "textual", "yaml"})


def test_values_that_need_a_conversion_are_converted_and_checked(desk: Desk) -> None:
    assert "valid integer" in desk("timeline", "--cluster", "c", "--limit", "lots").err
    assert desk("timeline", "--cluster", "c", "--limit", "lots").code == 2
    assert desk("case", "list", "--status", "none").code == 2
    assert desk("fleet", "break", "n", "--cluster", "c", "--fault", "none").code == 2
