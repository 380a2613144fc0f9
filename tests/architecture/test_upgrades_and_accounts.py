"""What an upgrade may change in the table, and what other accounts forward."""

from __future__ import annotations

import copy
import json
import tomllib
from typing import Any

import pytest
import yaml

from infra.docs.template import template
from infra.table_schema import RELEASED, problems, schema
from tests.architecture.project import ROOT

STACK_RULES = ("Ec2Events", "HealthEvents", "HyperPodEvents", "InventoryEvents")


def test_the_table_can_be_updated_from_the_released_one() -> None:
    assert problems(json.loads(RELEASED.read_text(encoding="utf-8")), schema()) == []


def test_an_upgrade_changes_no_projection_and_no_key_and_at_most_one_index() -> None:
    def changed(**indexes: Any) -> list[str]:
        after = copy.deepcopy(schema())
        after["indexes"] = {name: one for name, one in {**after["indexes"], **indexes}.items() if one}
        return problems(schema(), after)

    keys, projection = schema()["indexes"]["gsi1"]
    assert changed(gsi7=[keys, projection]) == changed(gsi6=None) == []
    wider = {**projection, "NonKeyAttributes": [*projection["NonKeyAttributes"], "evidence"]}
    assert "index gsi1 has other keys" in changed(gsi1=[keys, wider])[0]
    assert "more than one index is created or deleted: gsi6, gsi7" in changed(gsi7=[keys, projection], gsi6=None)[0]
    assert "would replace the table" in problems(schema(), {**schema(), "keys": keys})[0]


@pytest.fixture(scope="module")
def forwarded() -> dict[str, Any]:
    class Loader(yaml.SafeLoader):
        """Loads CloudFormation tags as None."""

    Loader.add_multi_constructor("!", lambda _loader, _tag, _node: None)
    text = (ROOT / "infra" / "forward.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader)["Resources"]  # type: ignore[no-any-return] # noqa: S506 - a safe loader


def test_a_member_account_forwards_exactly_the_events_that_the_rules_of_the_stack_select(
    forwarded: dict[str, Any],
) -> None:
    pattern = forwarded["ForwardedEvents"]["Properties"]["EventPattern"]
    of_stack = [template()["Resources"][name]["Properties"]["EventPattern"] for name in STACK_RULES]
    for key in ("source", "detail-type"):
        assert pattern[key] == sorted({one for rule in of_stack for one in rule[key]})


def test_the_account_of_the_stack_accepts_only_events_of_aws(forwarded: dict[str, Any]) -> None:
    statement = forwarded["AcceptedEvents"]["Properties"]["Statement"]
    (sources,) = statement["Condition"]["ForAllValues:StringEquals"].values()
    assert sources == forwarded["ForwardedEvents"]["Properties"]["EventPattern"]["source"]
    assert statement["Condition"]["Null"] == {"events:source": "false"}


def test_a_failed_upgrade_puts_no_old_function_on_items_that_new_ones_wrote() -> None:
    settings = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    assert settings["default"]["deploy"]["parameters"]["disable_rollback"] is True
