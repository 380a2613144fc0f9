"""No record is lost in silence: it is decoded, whatever surrounds it, or counted as not understood."""

from __future__ import annotations

import os
import random

import pytest

from faultbridge.decoders import registry
from faultbridge.domain.faults import Fault
from tests.decoders.wrapping import RECORDS, Combination, combinations

ALL = list(combinations())
SLICE = 4000


def codes_in(one: Combination) -> list[str]:
    return [found.code for found in registry.decode("kernel-log", one.body()) if isinstance(found, Fault)]


def lost(some: list[Combination]) -> list[Combination]:
    """Return the combinations of which the record was not decoded exactly once."""
    return [one for one in some if codes_in(one) != [one.code]]


def test_a_record_survives_a_seeded_slice_of_all_combinations() -> None:
    some = random.Random(os.environ.get("FAULTBRIDGE_SEED", "21")).sample(ALL, SLICE)
    assert lost(some) == []


@pytest.mark.nightly
def test_a_record_survives_every_combination() -> None:
    assert len(ALL) >= 50_000
    assert lost(ALL) == []
