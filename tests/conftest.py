"""Fixtures for every test."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later search for cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real captures and traces kept beside the repository; a test that wants them skips without them."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared beside the repository")
    return folder
