"""`faultbridge deploy` and `destroy` on the emulators: planned, created, repeated and removed.

The emulator ignores deletion policies, so only AWS can show that the record stays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faultbridge.install import packaging
from tests.architecture.project import ROOT
from tests.local.stack import PrivateStack

pytestmark = pytest.mark.embedded

PROGRAM = """
import sys
from pathlib import Path
from faultbridge.install import packaging
from faultbridge.cli.commands.install import deploy
deploy.read_packaged = lambda: packaging.read_packaged(Path(sys.argv[1]))
from faultbridge.cli.app import run
sys.exit(run(sys.argv[2:]))
"""
"""Runs a command with the archives that a running stack has deployed, in place of those of a wheel."""


@pytest.fixture(scope="module")
def archives(embedded_stack: PrivateStack) -> Path:
    """Return the archives of the embedded stack."""
    return next(one for one in (embedded_stack.home / ".packages").iterdir() if (one / packaging.INDEX_NAME).exists())


STACK = f"second-{os.getpid()}"


def run(stack: PrivateStack, archives: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose AWS calls all go to the emulators."""
    environment = {**os.environ, **stack.environment, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(archives), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_stack_is_planned_created_found_up_to_date_and_removed(embedded_stack: PrivateStack, archives: Path) -> None:
    plan = run(embedded_stack, archives, "deploy", "--stack", STACK, "--plan", "--json")
    assert json.loads(plan.stdout)["action"] == "create the stack", plan.stderr
    cloudformation = embedded_stack.client("cloudformation")
    assert [one for one in cloudformation.list_stacks()["StackSummaries"] if one["StackName"] == STACK] == []

    refused = run(embedded_stack, archives, "deploy", "--stack", STACK)
    assert refused.returncode == 2
    assert "nothing was changed" in refused.stderr

    parameters = ("--set", "TableDeletionProtection=false", "--set", "SenderProof=off")
    created = run(embedded_stack, archives, "deploy", "--stack", STACK, "--yes", "--json", *parameters)
    assert json.loads(created.stdout)["result"] == "created", created.stderr
    outputs = json.loads(created.stdout)["outputs"]
    again = run(embedded_stack, archives, "deploy", "--stack", STACK, "--yes", "--json")
    assert json.loads(again.stdout)["result"] == "up to date", again.stderr
    assert json.loads(again.stdout)["outputs"] == outputs
    plan = run(embedded_stack, archives, "deploy", "--stack", STACK, "--plan", "--json")
    assert json.loads(plan.stdout)["upload"] == "nothing: the bucket has every file"
    assert json.loads(plan.stdout)["resources"] == "none differs"

    listed = run(embedded_stack, archives, "cluster", "list", "--stack", STACK, "--json")
    assert json.loads(listed.stdout) == [], listed.stderr
    removed = run(embedded_stack, archives, "destroy", "--stack", STACK, "--yes", "--json")
    assert {one["resource"] for one in json.loads(removed.stdout)} == {
        "Table",
        "RawBucket",
        "ArchiveBucket",
        "VaultBucket",
    }, removed.stderr
    gone = run(embedded_stack, archives, "destroy", "--stack", STACK, "--yes")
    assert f"stack not found: '{STACK}'" in gone.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "VaultMod=COMPLIANCE"), "VaultMode"),
        (("--set", "PythonRuntime=python3.9"), "invalid --set"),
        (("--stack", "a-name-of-more-than-24-letters"), "at most 24 characters"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_called(
    embedded_stack: PrivateStack, archives: Path, arguments: tuple[str, str], said: str
) -> None:
    done = run(embedded_stack, archives, "deploy", "--yes", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
