"""Lists of nodes in the data of timeline entries: the number of nodes, and the first names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

MAX_LISTED = 50


def node_list(names: Collection[str], count: int | None = None) -> dict[str, Any]:
    """Return the number of nodes and the first fifty names, sorted, as event data.

    `count` is the number of all nodes; None means that `names` contains all of them.
    """
    return {"count": len(names) if count is None else count, "listed": sorted(names)[:MAX_LISTED]}
