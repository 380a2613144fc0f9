"""Fixtures of the embedded stack's own tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.local.stack import deployment, files
from faultbridge.local.stack.deployment import Deployment
from tests.local.stack import TINY, stack_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    with stack_home(folder):
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
def without_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the deployment, for tests of the other steps of `up`."""

    def skip_deployment(
        _folder: object, state: files.StackState, _wanted: object, _progress: object
    ) -> files.StackState:
        return state.with_deployment("nothing", {})

    monkeypatch.setattr(deployment, "bring_up_to_date", skip_deployment)
