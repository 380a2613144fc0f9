"""The ranks of a job on the command line: the options that set them, and the rows that show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from faultbridge.cli.render.output import Columns, Document

if TYPE_CHECKING:
    from faultbridge.domain.cluster.jobs import Job
    from faultbridge.domain.faults import Component

RANKS: Columns = {
    "RANK": lambda one: one["rank"],
    "NODE": lambda one: one["node"],
    "LOCAL RANK": lambda one: one["local_rank"],
    "PCI": lambda one: one["pci"],
    "UUID": lambda one: one["uuid"],
    "SERIAL": lambda one: one["serial"],
}


def is_wanted(row: Document, ranks: list[int] | None, node: str | None) -> bool:
    """Return whether a row for a rank is wanted: its rank is in `ranks`, and its node is `node`.

    If `ranks` is None or empty, every rank matches. If `node` is None, every node matches.
    """
    return (not ranks or row["rank"] in ranks) and node in {None, row["node"]}


def rank_rows(job: Job, devices: Mapping[str, Iterable[Component]]) -> Iterator[Document]:
    """Yield a row for each rank of a job, with its node and its GPU.

    `devices` contains the devices of each node. A rank uses the GPU on its node that has the local rank as index. If
    `devices` does not contain this GPU, the fields for the GPU are None.
    """
    from faultbridge.domain.cluster.ranks import gpu_of, ranks_of

    for node, text in sorted(job.ranks.items(), key=lambda each: ranks_of(each[1])[:1]):
        for local_rank, rank in enumerate(ranks_of(text)):
            gpu = gpu_of(devices.get(node, ()), local_rank)
            facts = {name: getattr(gpu, name, None) for name in ("pci", "uuid", "serial")}
            yield {"rank": rank, "node": node, "local_rank": local_rank, **facts}


def given_ranks(nodes: list[str], file: Path | None, per_node: int | None) -> dict[str, str]:
    """Return the ranks of each node as text, such as `0-7`.

    The ranks come from the rank map `file` (`--ranks`), or are numbered in the order of `nodes`, with `per_node` ranks
    on each node (`--ranks-per-node`). If neither option is given, the result is empty. It is a usage error to give
    both.
    """
    from faultbridge.cli.commands.offline.rank_map import read_rank_map
    from faultbridge.domain.cluster.ranks import ranks_in_order

    if file is not None and per_node is not None:
        raise typer.BadParameter("give --ranks or --ranks-per-node, not both")
    if per_node is not None:
        return ranks_in_order(nodes, per_node)
    return read_rank_map(file) if file else {}
