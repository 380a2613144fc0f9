"""Rank map: a JSON file with the ranks of each node, such as `{"n-7": [0, 1]}`."""

from __future__ import annotations

import json
from pathlib import Path

from faultbridge.errors import Rejected


def read_rank_map(file: Path) -> dict[int, str]:
    """Return the node of each rank. Another document, and a rank on two nodes, is `Rejected`."""
    try:
        listed = [(int(rank), node) for node, ranks in json.loads(file.read_bytes()).items() for rank in ranks]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Rejected("bad_node_map", f"{file}: not an object of nodes with lists of ranks") from error
    if len(listed) != len(dict(listed)):
        raise Rejected("bad_node_map", f"{file}: a rank is on two nodes")
    return dict(listed)
