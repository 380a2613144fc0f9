"""The README and the deploy page agree with the package and the template."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from faultbridge.cli.app import COMMANDS
from faultbridge.cli.commands.offline.events import failures, read_rule
from faultbridge.decode import registry
from infra.docs.template import template

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEPLOY = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
RULES = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert len(README.splitlines()) <= 90


def test_the_changelog_is_for_users() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_every_parameter_of_the_template_is_explained() -> None:
    template = (ROOT / "infra/template.yaml").read_text(encoding="utf-8")
    parameters = re.search(r"^Parameters:\n(.*?)^Conditions:", template, re.MULTILINE | re.DOTALL)
    assert parameters
    names = re.findall(r"^  (\w+):$", parameters[1], re.MULTILINE)
    assert names
    assert [name for name in names if f"`{name}`" not in DEPLOY] == []


def test_every_command_in_the_readme_exists() -> None:
    shown = re.findall(r"^ *faultbridge (\S+)", README, re.MULTILINE)
    assert shown
    assert [name for name in shown if name not in COMMANDS] == []


def test_the_readme_states_how_many_formats_are_read() -> None:
    assert f"[{len(registry.names())} formats]" in README


def test_the_rule_in_the_documentation_passes_the_golden_cases_of_its_file() -> None:
    shown = re.search(r"--event-pattern '(.*?)'", RULES, re.DOTALL)
    assert shown
    pattern = json.loads(shown[1])
    pattern["detail"]["metadata"]["cluster"] = [{"exists": True}]  # the golden cases have another cluster
    rule = read_rule(ROOT / "rules/page-on-fatal.yaml")
    assert list(failures(rule.model_copy(update={"pattern": pattern}))) == []


PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
TEMPLATE = template()


def rows(heading: str) -> list[str]:
    """Return the first cells of the rows of the table with this heading."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^ *\| `(\w+)` \|", table, re.MULTILINE)


def test_the_page_names_exactly_the_resources_that_stay_after_a_removal() -> None:
    retained = {name for name, one in TEMPLATE["Resources"].items() if "Retain" in one.get("DeletionPolicy", "")}
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
