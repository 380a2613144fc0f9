"""Reads the SAM template, with intrinsic functions in their long form."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "infra" / "template.yaml"


class _Loader(yaml.CSafeLoader):
    """A safe loader that reads `!Ref x` as {"Ref": "x"}."""


def _intrinsic(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    key = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {key: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {key: loader.construct_sequence(node, deep=True)}
    if isinstance(node, yaml.MappingNode):
        return {key: loader.construct_mapping(node, deep=True)}
    raise TypeError(f"unknown YAML node: {node!r}")


_Loader.add_multi_constructor("!", _intrinsic)


def read_template(path: Path) -> dict[str, Any]:
    """Return a template as plain data."""
    loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
    if not isinstance(loaded, dict):
        raise TypeError(f"{path.name} is no mapping")
    return loaded


@cache
def template() -> dict[str, Any]:
    """Return the template of the product; callers do not change it."""
    return read_template(TEMPLATE)


def resources(kind: str) -> dict[str, dict[str, Any]]:
    """Return the resources of one type by logical id."""
    return {name: one for name, one in template()["Resources"].items() if one["Type"] == kind}
