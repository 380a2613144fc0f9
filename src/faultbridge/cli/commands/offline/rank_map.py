"""Read a rank map: a JSON file with the ranks of each node, such as `{"n-7": [0, 1]}`."""

from __future__ import annotations

import json
from pathlib import Path

from faultbridge.domain.cluster.ranks import rank_text
from faultbridge.errors import Rejected


def read_rank_map(file: Path) -> dict[str, str]:
    """Return the ranks of each node as text, from a rank map file.

    Raises Rejected if the file is not a rank map, or if it lists a rank twice.
    """
    try:
        ranks = {node: [int(rank) for rank in listed] for node, listed in json.loads(file.read_bytes()).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Rejected("bad_node_map", f"{file}: not an object of nodes with lists of ranks") from error
    if sum(map(len, ranks.values())) != len({rank for listed in ranks.values() for rank in listed}):
        raise Rejected("bad_node_map", f"{file}: a rank is on two nodes")
    return {node: rank_text(listed) for node, listed in ranks.items()}
