"""Finds the ends of a wait-for graph: the strongly connected components that no edge leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

Graph = Mapping[Hashable, Sequence[Hashable]]


def terminal_components(graph: Graph) -> list[frozenset[Hashable]]:
    """Return the strongly connected components without an edge to another component.

    Each target of an edge must be a node of the graph.
    """
    components = _components(graph)
    return [one for one in components if all(target in one for node in one for target in graph[node])]


def _components(graph: Graph) -> Iterator[frozenset[Hashable]]:
    """Yield the strongly connected components, by Kosaraju's algorithm without recursion."""
    reverse: dict[Hashable, list[Hashable]] = defaultdict(list)
    for node, targets in graph.items():
        for target in targets:
            reverse[target].append(node)
    finished: list[Hashable] = []
    seen: set[Hashable] = set()
    for root in graph:
        finished.extend(_finished(graph, root, seen))
    seen = set()
    for root in reversed(finished):
        if component := frozenset(_finished(reverse, root, seen)):
            yield component


def _finished(graph: Graph, root: Hashable, seen: set[Hashable]) -> Iterator[Hashable]:
    """Yield the nodes reachable from `root` that are not in `seen`, in postorder, and add them to `seen`."""
    if root in seen:
        return
    seen.add(root)
    path = [(root, iter(graph.get(root, ())))]
    while path:
        node, targets = path[-1]
        following = next((one for one in targets if one not in seen), None)
        if following is None:
            path.pop()
            yield node
        else:
            seen.add(following)
            path.append((following, iter(graph.get(following, ()))))
