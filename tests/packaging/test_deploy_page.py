"""The page about deployment matches the template, the settings of SAM and the command line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from faultbridge.cli.app import COMMANDS
from faultbridge.local.stack.deployment import read_template

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
TEMPLATE = read_template(ROOT / "infra" / "template.yaml")


def rows(heading: str) -> list[str]:
    """Return the first cells of the rows of the table with this heading."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^ *\| `(\w+)` \|", table, re.MULTILINE)


def test_the_page_names_exactly_the_resources_that_stay_after_a_removal() -> None:
    retained = {name for name, one in TEMPLATE["Resources"].items() if one.get("DeletionPolicy") == "Retain"}
    assert set(rows("logical id")) == retained
    assert all(TEMPLATE["Resources"][name]["UpdateReplacePolicy"] == "Retain" for name in retained)


def test_every_parameter_has_a_default_and_those_of_the_page_exist() -> None:
    parameters = TEMPLATE["Parameters"]
    assert [name for name, one in parameters.items() if "Default" not in one] == []
    assert rows("parameter")
    assert [name for name in rows("parameter") if name not in parameters] == []


def test_the_settings_of_sam_hold_what_the_page_says() -> None:
    deploy = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))["default"]["deploy"]["parameters"]
    assert {"stack_name", "capabilities", "resolve_s3", "confirm_changeset"} <= set(deploy)
    assert "parameter_overrides" not in deploy


def test_every_output_and_command_of_the_page_exists() -> None:
    assert [name for name in re.findall(r"output `(\w+)`", PAGE) if name not in TEMPLATE["Outputs"]] == []
    commands = re.findall(r"^ *faultbridge (\w+)", PAGE, re.MULTILINE)
    assert commands
    assert [name for name in commands if name not in COMMANDS] == []
