"""The README, the deployment guide and the page of rules match the command line, the template and the rules."""

from __future__ import annotations

import json
import re
from pathlib import Path

from faultbridge.cli.app import COMMANDS
from faultbridge.cli.commands.offline.rule import failures, read_rule
from faultbridge.decode import registry

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
