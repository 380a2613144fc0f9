"""Compare the keys and indexes of the table with the released ones, which `table_schema.json` contains.

    python -m infra.table_schema

DynamoDB creates or deletes one index in one update of a stack, and changes the projection of none. A template that
needs more fails to upgrade an installed stack. Until the first release, the command writes the file; afterwards, it is
written once a release, so that each release changes at most one index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

INFRA = Path(__file__).resolve().parent
RELEASED = INFRA / "table_schema.json"


class _Loader(yaml.SafeLoader):
    """Loads CloudFormation tags as None."""


_Loader.add_multi_constructor("!", lambda _loader, _tag, _node: None)


@cache
def schema() -> dict[str, Any]:
    """Return the key schema of the table in the template, and that of each index with its projection."""
    text = (INFRA / "template.yaml").read_text(encoding="utf-8")
    table = yaml.load(text, _Loader)["Resources"]["Table"]["Properties"]  # noqa: S506 - a safe loader
    indexes = {one["IndexName"]: [one["KeySchema"], one["Projection"]] for one in table["GlobalSecondaryIndexes"]}
    return {"keys": table["KeySchema"], "indexes": indexes}


def problems(released: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Return why an installed table cannot be updated from one schema to another by one update of its stack."""
    before, after = released["indexes"], current["indexes"]
    changed = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    found = [f"index {name} has other keys or another projection; add a new index instead" for name in changed]
    if released["keys"] != current["keys"]:
        found.append("the keys of the table changed; DynamoDB would replace the table")
    moved = sorted(before.keys() ^ after.keys())
    if len(moved) > 1:
        found.append(f"more than one index is created or deleted: {', '.join(moved)}; release them one after another")
    return found


if __name__ == "__main__":
    RELEASED.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
    print(RELEASED)
