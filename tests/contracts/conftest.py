"""Fixtures of the contract tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultbridge.adapters.clients import Clients
from tests.contracts.aws import aws


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    """Clients of an AWS of this module's own; tests keep apart by fresh names."""
    with aws() as made:
        yield made
