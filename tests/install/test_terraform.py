"""The Terraform module passes to the stack what `faultbridge deploy` passes, and reads the same folder."""

from __future__ import annotations

import re

from faultbridge.cli.commands.install import deploy
from faultbridge.install import cloudformation, packaging
from tests.architecture.project import ROOT

MAIN = (ROOT / "infra" / "terraform" / "main.tf").read_text(encoding="utf-8")
VARIABLES = (ROOT / "infra" / "terraform" / "variables.tf").read_text(encoding="utf-8")


def test_the_module_sets_the_parameters_that_deploy_sets() -> None:
    merged = MAIN.partition("merge(var.parameters, {")[2].partition("}")[0]
    assert set(re.findall(r"^ +(\w+) +=", merged, re.MULTILINE)) == set(deploy.SET_BY_DEPLOY)


def test_the_module_needs_the_capabilities_that_deploy_names() -> None:
    (line,) = re.findall(r"capabilities = \[(.+)\]", MAIN)
    assert tuple(re.findall(r'"(\w+)"', line)) == cloudformation.CAPABILITIES


def test_the_module_uploads_the_artifacts_under_the_keys_of_the_template() -> None:
    assert packaging.Artifact("a.zip", b"").key == "faultbridge/a.zip"
    assert 'key      = "faultbridge/${each.value}"' in MAIN
    assert f"/{packaging.INDEX_NAME}" in MAIN
    assert f"/{packaging.TEMPLATE_NAME}" in MAIN


def test_the_module_limits_the_name_of_the_stack() -> None:
    assert f"length(var.name) <= {cloudformation.MAX_STACK_NAME}" in VARIABLES
