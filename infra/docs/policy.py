"""Generates the policy reference from the models that validate a policy file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from pydantic import BeforeValidator

from faultbridge.policyfile.schema import PolicyPart
from infra.docs.markdown import cell, code, page, table
from infra.docs.meanings import meanings
from infra.docs.schema import type_of

MODELS = {name: one for name, one in vars(sys.modules[PolicyPart.__module__]).items() if hasattr(one, "model_fields")}
INTRODUCTION = """\
A policy is a YAML or JSON file. `faultbridge policy check FILE` validates it offline, `faultbridge policy put FILE`
makes it the current one, `faultbridge policy show` prints the current one. The first rule whose `match` fits a
condition decides. Durations are seconds or text such as `90s`, `30m`, `8h`, `7d`. Unknown fields are refused."""


def generate() -> str:
    """Return the reference page of all policy fields with their defaults and limits."""
    schema = PolicyPart.model_json_schema()
    shared: dict[str, Any] = schema.pop("$defs", {})
    sections = []
    for name, one in [(PolicyPart.__name__, schema), *sorted(shared.items())]:
        if "properties" in one:
            sections += [f"## {_title(name)}", str(one.get("description", "")), _fields(name, one)]
    words = [(_title(name), " ".join(map(code, one["enum"]))) for name, one in sorted(shared.items()) if "enum" in one]
    return page(
        "Policy file",
        INTRODUCTION,
        *sections,
        "## Allowed values",
        table(["type", "values"], words),
        "## The packaged policy\n\nIt applies until you put one of your own.",
        f"```json\n{_default()}\n```",
    )


def _title(name: str) -> str:
    """Return the name of a part as the page shows it: `LimitsPart` is `limits`, `ComponentType` is `component type`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removesuffix("Part")).lower()


def _fields(model: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    known = meanings("policy_field")
    rows = []
    for name, one in schema["properties"].items():
        duration = _duration(model, name)
        default = "required" if name in required else _shown(one, _time if duration else json.dumps)
        kind = duration or type_of(one, _title)
        rows.append((code(name), kind, default, known[f"{_title(model)}.{name}"]))
    return table(["field", "type", "default", "meaning"], rows)


def _duration(model: str, field: str) -> str:
    """Return the type of a duration field with its limits in seconds; other fields return an empty string."""
    metadata = MODELS[model].model_fields[field].metadata
    if not any(isinstance(one, BeforeValidator) for one in metadata):
        return ""
    limits = [f"{limit} {text}" for one in metadata for limit, text in _limits(one)]
    return ", ".join(["duration", *limits])


def _limits(constraint: object) -> list[tuple[str, str]]:
    bounds = [("at least", getattr(constraint, "ge", None)), ("at most", getattr(constraint, "le", None))]
    return [(text, _time(bound)) for text, bound in bounds if bound is not None]


def _time(seconds: int) -> str:
    """Return seconds in the largest unit that divides them."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _shown(field: dict[str, Any], write: Callable[[Any], str]) -> str:
    """Return the default of a field, with a nested model named instead of printed."""
    default = field.get("default")
    if isinstance(default, dict) or "default" not in field:
        return "its own defaults"
    return code(cell(write(default)))


def _default() -> str:
    """Return the text of the packaged default policy."""
    return files("faultbridge.data").joinpath("policy/default.json").read_text(encoding="utf-8").strip()
