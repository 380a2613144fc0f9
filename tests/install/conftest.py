"""Fixtures for the tests of the commands that install."""

from __future__ import annotations

import pytest

from tests.cli.desk import Desk


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Desk:
    return Desk(monkeypatch, capfdbinary)
