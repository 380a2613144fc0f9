"""Ranks of a job: which global ranks run on which node, stored as short text such as `0-7`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component

MAX_RANKS = 100_000


def ranks_in_order(nodes: Sequence[str], per_node: int) -> dict[str, str]:
    """Return the ranks of each node as text, such as `0-7`: `per_node` consecutive ranks, in node order."""
    return {node: rank_text(range(number * per_node, (number + 1) * per_node)) for number, node in enumerate(nodes)}


def rank_text(ranks: Iterable[int]) -> str:
    """Return ranks as short text, sorted and without duplicates, such as `0,2-3`."""
    parts: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    return ",".join("-".join(map(str, part)) for part in parts)


def ranks_of(text: str) -> tuple[int, ...]:
    """Return the global ranks in a text such as `0,2-3`, in the order of the text.

    The position of a rank in the result is its local rank on the node. A range with more than `MAX_RANKS` ranks is cut
    to `MAX_RANKS + 1`.
    """
    return tuple(_ranks_of(text))


def node_of_rank(ranks: Mapping[str, str]) -> dict[int, str]:
    """Return a map from each global rank to the node on which it runs."""
    return {rank: node for node, text in ranks.items() for rank in ranks_of(text)}


def ranks_on_gpus(text: str, gpus: Iterable[int]) -> tuple[int, ...]:
    """Return the ranks of GPUs by their numbers; launchers give the ranks of a node (`text`) to its GPUs in order."""
    ranks = ranks_of(text)
    return tuple(ranks[number] for number in gpus if number < len(ranks))


def _ranks_of(text: str) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from islice(range(int(first), int(last or first) + 1), MAX_RANKS + 1)


def gpu_of(devices: Iterable[Component], index: int) -> Component | None:
    """Return the GPU with this `index` among the devices of a node, or None if there is none.

    If each rank of the job uses one GPU, in PCI bus order, `index` is also the local rank that uses the GPU.
    """
    return next((one for one in devices if one.type is ComponentType.GPU and one.index == index), None)


def gpu_like(devices: Iterable[Component], wanted: Component) -> Component | None:
    """Return the GPU with the UUID of `wanted`, else the GPU with the PCI address of `wanted`, else None."""
    gpus = [one for one in devices if one.type is ComponentType.GPU]
    by_uuid = (one for one in gpus if wanted.uuid is not None and one.uuid == wanted.uuid)
    by_pci = (one for one in gpus if wanted.pci is not None and one.pci == wanted.pci)
    return next(by_uuid, None) or next(by_pci, None)
