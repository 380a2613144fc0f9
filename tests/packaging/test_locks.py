"""The lock files are complete, have hashes, and name no download address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)")


def pins(lock: str) -> dict[str, str]:
    """Return the pinned version of each distribution."""
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(m[1]): m[2] for line in lines if (m := PIN.match(line))}


def project() -> dict[str, list[Requirement]]:
    """Return the requirements of pyproject.toml by group."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = {
        "cli": data["project"]["dependencies"],
        **data["project"]["optional-dependencies"],
        **data["dependency-groups"],
    }
    return {group: [Requirement(text) for text in texts] for group, texts in requirements.items()}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_a_hash(lock: Path) -> None:
    blocks = re.split(r"\n(?=[a-z0-9])", lock.read_text(encoding="utf-8"))
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_names_no_address(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert not re.search(r"://|--(extra-)?index-url|--find-links| @ |^-e ", text, re.MULTILINE)


@pytest.mark.parametrize("group", ["cli", "local", "eks", "lambda", "kubernetes", "dev"])
def test_the_development_lock_satisfies_the_requirements_of_the_project(group: str) -> None:
    pinned = pins("dev.txt")
    unmet = [str(r) for r in project()[group] if pinned.get(canonicalize_name(r.name), "") not in r.specifier]
    assert unmet == []


def test_lambda_has_the_versions_of_the_tests() -> None:
    for layer in ("lambda.txt", "kubernetes.txt", "console.txt"):
        assert pins(layer).items() <= pins("dev.txt").items()


def test_the_layer_excludes_packages_of_the_runtime_and_of_the_cli() -> None:
    assert not {"boto3", "botocore", "pydantic", "jsonschema", "click", "rich"} & pins("lambda.txt").keys()


def test_the_emulators_are_pinned_exactly() -> None:
    exact = {r.name: str(r.specifier) for r in project()["local"]}
    assert exact["ministack"] == "==1.4.21"
    assert exact["moto"] == "==5.2.5"
    assert exact["jsonata-python"] == "==0.7.1"
