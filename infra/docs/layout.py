"""Places the states of a diagram in layers, so that most arrows point down (the method of Sugiyama)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

Arrow = tuple[str, str]
SWEEPS = 12
SEPARATION = 34.0
WIDTH_OF_BEND = 12.0


@dataclass
class Layout:
    """Layers from top to bottom, the horizontal center of each item, and the bends of each arrow that spans layers."""

    layers: list[list[str]]
    x: dict[str, float]
    bends: dict[Arrow, list[str]]
    reversed: set[Arrow] = field(default_factory=set)


def arrange(arrows: Iterable[Arrow], widths: Mapping[str, float]) -> Layout:
    """Arrange states; `widths` contains the width of each state's box. Equal input gives equal output."""
    forward, reversed_arrows = _acyclic(list(dict.fromkeys(arrows)))
    level = _levels(forward, list(widths))
    layers: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name in widths:
        layers[level[name]].append(name)
    bends, segments = _bends(forward, level, layers)
    _order(layers, segments)
    sizes = defaultdict(lambda: WIDTH_OF_BEND, widths)
    return Layout(layers, _positions(layers, segments, sizes), bends, reversed_arrows)


def _acyclic(arrows: list[Arrow]) -> tuple[list[Arrow], set[Arrow]]:
    """Return the arrows, with those that close a cycle reversed, and the original of each reversed arrow."""
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in arrows:
        targets[source].append(target)
    done: set[str] = set()
    turned: set[Arrow] = set()

    def visit(name: str, above: frozenset[str]) -> None:
        for target in targets[name]:
            if target in above or target == name:
                turned.add((name, target))
            elif target not in done:
                visit(target, above | {target})
        done.add(name)

    for source, _ in arrows:
        if source not in done:
            visit(source, frozenset({source}))
    kept = [arrow for arrow in arrows if arrow[0] != arrow[1]]
    return list(dict.fromkeys((b, a) if (a, b) in turned else (a, b) for a, b in kept)), turned


def _levels(arrows: list[Arrow], names: list[str]) -> dict[str, int]:
    """Return the layer of each state: one below the lowest state that points to it."""
    level = dict.fromkeys(names, 0)
    for _ in names:
        for source, target in arrows:
            level[target] = max(level[target], level[source] + 1)
    return level


def _bends(
    arrows: list[Arrow], level: Mapping[str, int], layers: list[list[str]]
) -> tuple[dict[Arrow, list[str]], list[Arrow]]:
    """Add one bend per layer that an arrow crosses; return the bends and the resulting one-layer segments."""
    bends: dict[Arrow, list[str]] = {}
    segments: list[Arrow] = []
    for source, target in arrows:
        names = [f"{source}>{target}@{layer}" for layer in range(level[source] + 1, level[target])]
        for layer, name in enumerate(names, level[source] + 1):
            layers[layer].append(name)
        bends[source, target] = names
        chain = [source, *names, target]
        segments += list(pairwise(chain))
    return bends, segments


def _neighbors(segments: list[Arrow]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for source, target in segments:
        below[source].append(target)
        above[target].append(source)
    return above, below


def _order(layers: list[list[str]], segments: list[Arrow]) -> None:
    """Sort each layer by the mean place of its neighbors, down and up in turn, so that few arrows cross."""
    above, below = _neighbors(segments)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        pairs = list(pairwise(layers))
        for upper, lower in pairs if down else reversed(pairs):
            fixed, moved, near = (upper, lower, above) if down else (lower, upper, below)
            place = {name: index for index, name in enumerate(fixed)}
            means = {name: _mean([place[one] for one in near[name]], index) for index, name in enumerate(moved)}
            moved.sort(key=means.__getitem__)


def _mean(values: list[int] | list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _positions(layers: list[list[str]], segments: list[Arrow], widths: Mapping[str, float]) -> dict[str, float]:
    """Return horizontal centers: each item moves toward its neighbors as far as its layer's order allows."""
    x: dict[str, float] = {}
    for layer in layers:
        edge = 0.0
        for name in layer:
            x[name] = edge + widths[name] / 2
            edge += widths[name] + SEPARATION
        for name in layer:
            x[name] -= edge / 2
    above, below = _neighbors(segments)
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {name: _mean([x[one] for one in near[name]], x[name]) for name in layer}
            _spread(layer, wanted, x, widths)
    left = min(x[name] - widths[name] / 2 for name in x)
    return {name: center - left for name, center in x.items()}


def _spread(layer: list[str], wanted: Mapping[str, float], x: dict[str, float], widths: Mapping[str, float]) -> None:
    """Place a layer near its wanted centers without overlap: the mean of packing from the left and from the right."""
    gap = {(a, b): (widths[a] + widths[b]) / 2 + SEPARATION for a, b in pairwise(layer)}
    left: dict[str, float] = {}
    for index, name in enumerate(layer):
        before = layer[index - 1] if index else None
        left[name] = max(wanted[name], left[before] + gap[before, name]) if before else wanted[name]
    right: dict[str, float] = {}
    for index in reversed(range(len(layer))):
        name = layer[index]
        after = layer[index + 1] if index + 1 < len(layer) else None
        right[name] = min(wanted[name], right[after] - gap[name, after]) if after else wanted[name]
    for name in layer:
        x[name] = (left[name] + right[name]) / 2
