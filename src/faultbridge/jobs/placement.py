"""Placement of a job: finds the nodes that a scheduler names, and the ranks on each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultbridge.domain.cluster.ranks import MAX_RANKS, rank_text, ranks_of
from faultbridge.domain.nodes import Alias
from faultbridge.errors import Rejected, UnknownName
from faultbridge.ledger.queries import cluster_config
from faultbridge.ports import Table
from faultbridge.storage import items, keys

MAX_NODES = 5000


def resolved_nodes(table: Table, cluster: str, names: Sequence[str]) -> dict[str, str]:
    """Return the node name for each name that a scheduler gave for a node.

    A given name is the node name, another alias or an instance id. The result maps given names to node names. Raises
    Rejected `unknown_cluster`, `unknown_node` for a name without a node in the cluster, and `bad_nodes` if there are no
    names or more than 5,000.
    """
    cluster_config(table, cluster)  # rejects an unregistered cluster
    if not 0 < len(names) <= MAX_NODES:
        raise Rejected("bad_nodes", f"the job has {len(names)} nodes; 1 to {MAX_NODES} are allowed")
    aliases = {name: _alias(cluster, name) for name in names}
    found = table.get_many(keys.alias(*alias) for alias in aliases.values())
    nodes: dict[str, str] = {}
    for name, alias in aliases.items():
        row = found.get(keys.alias(*alias))
        key = items.read_alias(row).key if row else None
        if key is None or key.cluster != cluster:
            raise UnknownName("node", name, cluster)
        nodes[name] = key.node
    return nodes


def ranks_by_node(names: Mapping[str, str], ranks: Mapping[str, str]) -> dict[str, str]:
    """Return the ranks of each node as text, such as `0-7`.

    `names` maps each name that a scheduler gave for a node to the name of the node. `ranks` maps the given names to
    ranks. Raises Rejected `bad_ranks` if a rank is malformed or given twice, if a name is no node of the job, or if
    there are too many ranks.
    """
    try:
        listed = [(names[name], rank) for name, text in ranks.items() for rank in ranks_of(text)]
    except KeyError as error:
        raise Rejected("bad_ranks", f"the ranks name {error.args[0]}, which is no node of the job") from error
    except ValueError as error:
        raise Rejected("bad_ranks", "the ranks are not numbers; allowed: such as 0-7 or 0,2,4") from error
    if len(listed) > MAX_RANKS or len({rank for _, rank in listed}) != len(listed):
        raise Rejected("bad_ranks", f"a rank is on two nodes, or there are more than {MAX_RANKS} ranks")
    by_node: dict[str, list[int]] = {}
    for node, rank in listed:
        by_node.setdefault(node, []).append(rank)
    return {node: rank_text(found) for node, found in by_node.items()}


def _alias(cluster: str, name: str) -> Alias:
    return Alias("instance", name) if name.startswith("i-") else Alias("name", f"{cluster}/{name}")
