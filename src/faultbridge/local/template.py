"""Reading a CloudFormation template, with its short forms of intrinsic functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML with `!Ref` and its like."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    if isinstance(node, yaml.MappingNode):
        return {name: loader.construct_mapping(node, deep=True)}
    raise yaml.constructor.ConstructorError(None, None, f"!{suffix} of an unknown kind", node.start_mark)


_Loader.add_multi_constructor("!", _intrinsic)


def read(path: Path) -> dict[str, Any]:
    """Return the template as plain data; short forms become their long ones."""
    document = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506 - a SafeLoader with intrinsics
    return document if isinstance(document, dict) else {}


def resources(template: dict[str, Any], *types: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the logical id and properties of each resource of one of these types."""
    for logical_id, resource in template.get("Resources", {}).items():
        if resource.get("Type") in types:
            yield logical_id, resource.get("Properties", {})
