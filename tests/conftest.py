"""Fixtures for every test."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.embedded import embedded_stack, recording_proxy, tiny_stack
from tests.scheduling import ByRoom, place

__all__ = ["embedded_stack", "recording_proxy", "tiny_stack"]

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later search for cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRoom:
    """Keep together what shares a stack."""
    return ByRoom(config, log)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real captures and traces kept beside the repository; a test that wants them skips without them."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared beside the repository")
    return folder
