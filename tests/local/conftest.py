"""Fixtures of the embedded stack's own tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.local.stack import deployment, files
from faultbridge.local.stack.deployment import Deployment
from tests.local.stack import TINY, stack_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with _home(tmp_path / "home") as folder:
        yield folder


@pytest.fixture(scope="module")
def kept_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose stack the tests of a module share: each calls `up`, which starts it only if it does not run."""
    with _home(tmp_path_factory.mktemp("kept") / "home") as folder:
        yield folder


@contextmanager
def _home(folder: Path) -> Iterator[Path]:
    with stack_home(folder):
        yield folder
        for stack in folder.glob("[!.]*/"):
            local.down(stack=stack.name)


@pytest.fixture
def project(tmp_path: Path) -> Deployment:
    """A copy of the small project, for tests that change it."""
    return _project(tmp_path / "project")


@pytest.fixture(scope="module")
def kept_project(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A copy of the small project for the tests that share a stack."""
    return _project(tmp_path_factory.mktemp("kept") / "project")


def _project(root: Path) -> Deployment:
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
