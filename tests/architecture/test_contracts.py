"""Every schema has samples, every rule has golden cases."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.architecture.project import ROOT, relative

SCHEMAS = sorted((ROOT / "schemas").glob("*/v*.json"))
RULES = sorted((ROOT / "rules").glob("*.yaml"))


def test_there_are_schemas_and_rules() -> None:
    assert SCHEMAS
    assert RULES


@pytest.mark.parametrize("schema", SCHEMAS, ids=relative)
def test_a_schema_has_samples_of_its_major_version(schema: Path) -> None:
    major = schema.stem.removeprefix("v")
    assert list(schema.parent.glob(f"samples/{major}.*/*.json"))


@pytest.mark.parametrize("rule", RULES, ids=relative)
def test_a_rule_has_golden_cases_of_both_kinds(rule: Path) -> None:
    cases = yaml.safe_load(rule.read_text(encoding="utf-8"))["cases"]
    assert cases["must"]
    assert cases["must_not"]
