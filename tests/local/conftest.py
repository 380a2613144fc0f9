"""Fixtures of the embedded stack's own tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.local import deploy, state
from faultbridge.local.deploy import Deployment
from tests.local.stack import TINY, at_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    with at_home(folder):
        yield folder
        for stack in folder.glob("*/"):
            local.down(stack=stack.name)


@pytest.fixture
def project(tmp_path: Path) -> Deployment:
    """A copy of the small project, for tests that change it."""
    root = tmp_path / "project"
    shutil.copytree(TINY, root)
    return Deployment(project=root, template=root / "infra" / "template.yaml", parameters={})


@pytest.fixture
def nothing_to_deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what happens around a deployment: it is taken as done."""

    def taken_as_done(_folder: object, known: state.StackState, _wanted: object, _say: object) -> state.StackState:
        return known.with_deployment("nothing", {})

    monkeypatch.setattr(deploy, "bring_up_to_date", taken_as_done)
