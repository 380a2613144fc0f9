"""Generates the reference of template parameters, outputs and environment variables."""

from __future__ import annotations

from typing import Any

from faultbridge.model.settings import Settings, Variable
from infra.docs.markdown import code, page, table
from infra.docs.template import template

INTRODUCTION = """\
Parameters of `infra/template.yaml` configure a deployment: `sam deploy --parameter-overrides NAME=VALUE`. The template
passes them to the functions as environment variables. Policies, mappings and clusters are data, not parameters: see the
[policy file](../policy.md) and the [command line](cli/index.md)."""
LIMITS = {"MinValue": "at least {}", "MaxValue": "at most {}", "AllowedPattern": "pattern `{}`"}


def generate() -> str:
    """Return the reference page of all settings of a deployment."""
    document = template()
    parameters = [(code(name), _values(one), _default(one), one.get("Description", "")) for name, one in _of(document)]
    outputs = [(code(name), one.get("Description", "")) for name, one in sorted(document["Outputs"].items())]
    declared = sorted((one.name, one.description) for one in vars(Settings).values() if isinstance(one, Variable))
    variables = [(code(name), description) for name, description in declared]
    return page(
        "Settings",
        INTRODUCTION,
        "## Template parameters",
        table(["parameter", "values", "default", "meaning"], parameters),
        "## Stack outputs",
        table(["output", "meaning"], outputs),
        "## Environment variables of the functions",
        "The template sets them. Set them yourself only when you run a function outside the template.",
        table(["variable", "meaning"], variables),
    )


def _of(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(document["Parameters"].items())


def _values(parameter: dict[str, Any]) -> str:
    """Return the type of a parameter and what limits its value."""
    if "AllowedValues" in parameter:
        return " ".join(code(one) for one in parameter["AllowedValues"])
    limits = [text.format(parameter[name]) for name, text in LIMITS.items() if name in parameter]
    return ", ".join([parameter["Type"], *limits])


def _default(parameter: dict[str, Any]) -> str:
    default = parameter.get("Default")
    return "none; required" if default is None else code(default) or "empty"
