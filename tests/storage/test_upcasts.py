"""Upcasts: items of earlier releases are converted, and items of later releases are refused."""

from __future__ import annotations

import pytest

from faultbridge.model.errors import Misconfigured
from faultbridge.model.storage.items import LATEST, STEPS, upcast

STEPS_TO_3 = {
    1: lambda item: {**item, "state": {**item["state"], "name": item["state"]["title"]}},
    2: lambda item: {**item, "state": {"name": item["state"]["name"].upper()}},
}


def test_an_item_is_converted_by_every_step_up_to_the_latest_version():
    assert upcast({"schema": 1, "state": {"title": "n"}}, STEPS_TO_3, 3) == {"schema": 3, "state": {"name": "N"}}
    assert upcast({"schema": 2, "state": {"name": "n"}}, STEPS_TO_3, 3) == {"schema": 3, "state": {"name": "N"}}


def test_an_item_of_the_latest_version_is_unchanged():
    item = {"schema": LATEST, "state": {}}
    assert upcast(item) is item


def test_an_item_of_a_newer_release_is_refused():
    with pytest.raises(Misconfigured, match="newer release"):
        upcast({"pk": "NODE#a#b", "schema": LATEST + 1})


def test_every_earlier_version_has_a_step():
    assert set(STEPS) == set(range(1, LATEST))
