"""Upcasts: what an earlier release wrote reads today; what a later one wrote is not guessed at."""

from __future__ import annotations

import pytest

from faultbridge.errors import Misconfigured
from faultbridge.storage.upcasts import LATEST, STEPS, upcast

STORY = {
    1: lambda item: {**item, "state": {**item["state"], "name": item["state"]["title"]}},
    2: lambda item: {**item, "state": {"name": item["state"]["name"].upper()}},
}


def test_an_item_passes_every_step_between_its_version_and_ours():
    assert upcast({"schema": 1, "state": {"title": "n"}}, STORY, 3) == {"schema": 3, "state": {"name": "N"}}
    assert upcast({"schema": 2, "state": {"name": "n"}}, STORY, 3) == {"schema": 3, "state": {"name": "N"}}


def test_an_item_of_our_own_version_is_left_alone():
    item = {"schema": LATEST, "state": {}}
    assert upcast(item) is item


def test_an_item_of_a_newer_release_is_refused_and_says_so():
    with pytest.raises(Misconfigured, match="newer release"):
        upcast({"pk": "NODE#a#b", "schema": LATEST + 1})


def test_there_is_a_step_from_every_earlier_version():
    assert set(STEPS) == set(range(1, LATEST))
