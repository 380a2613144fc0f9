"""Draws a Mermaid state diagram as SVG, so that the site needs neither a script nor a request to render it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import pairwise
from zlib import crc32

from infra.docs.layout import Layout, arrange

ARROW = re.compile(r"^\s*(\S+) --> (\S+?)(?:\s*: (.+))?$")
BOX_HEIGHT = 30
LAYER_HEIGHT = 84
LETTER = 7.4
PADDING = 18
INCARNATION_MARGIN = 26
START, END = "[*]", "[end]"
STYLE = (
    ".state{fill:var(--diagram-box,#eef3fb);stroke:var(--diagram-line,#3b5b8c);stroke-width:1.3}"
    ".arrow{fill:none;stroke:var(--diagram-line,#3b5b8c);stroke-width:1.2}"
    ".tip{fill:var(--diagram-line,#3b5b8c)}"
    "text{font:12.5px ui-sans-serif,system-ui,sans-serif;fill:var(--diagram-text,#1b2433);text-anchor:middle}"
    ".label{font-size:11px;paint-order:stroke;stroke:var(--diagram-paper,#fff);stroke-width:4px}"
)
Point = tuple[float, float]


def parse(diagram: str) -> list[tuple[str, str, str]]:
    """Return the arrows of a `stateDiagram-v2` as (source, target, label); any other line is an error."""
    head, *lines = [line for line in diagram.strip().splitlines() if line.strip()]
    if head.strip() != "stateDiagram-v2":
        raise ValueError(f"unsupported diagram: {head.strip()}; use stateDiagram-v2")
    arrows = []
    for line in lines:
        found = ARROW.match(line)
        if found is None:
            raise ValueError(f"unsupported line in a state diagram: {line.strip()}; use `A --> B: label`")
        source, target, label = found.groups()
        arrows.append((source, END if target == START else target, label or ""))
    return arrows


def draw(diagram: str, title: str) -> str:
    """Return the SVG of a state diagram; equal text gives an equal drawing."""
    arrows = parse(diagram)
    names = dict.fromkeys(name for source, target, _ in arrows for name in (source, target))
    widths = {name: 22.0 if name in {START, END} else len(name) * LETTER + PADDING for name in names}
    layout = arrange([(a, b) for a, b, _ in arrows], widths)
    width = max(layout.x[name] + widths.get(name, 0) / 2 for name in layout.x) + 2 * INCARNATION_MARGIN
    height = len(layout.layers) * LAYER_HEIGHT - LAYER_HEIGHT + BOX_HEIGHT + 2 * INCARNATION_MARGIN
    tip = f"tip-{crc32(diagram.encode()):x}"  # one page may have several drawings
    shapes = [*_arrows(arrows, layout, tip), *_states(layout, widths)]
    return (
        f'<svg class="diagram" role="img" viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<defs><marker id="{tip}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="tip" d="M0,0 L8,4 L0,8 Z"/></marker></defs>'
        f"{''.join(shapes)}</svg>"
    )


def _center(layout: Layout, name: str) -> Point:
    layer = next(index for index, names in enumerate(layout.layers) if name in names)
    return layout.x[name] + INCARNATION_MARGIN, layer * LAYER_HEIGHT + INCARNATION_MARGIN + BOX_HEIGHT / 2


def _states(layout: Layout, widths: dict[str, float]) -> Iterator[str]:
    for name, width in widths.items():
        x, y = _center(layout, name)
        if name == START:
            yield f'<circle class="tip" cx="{x:.1f}" cy="{y:.1f}" r="7"/>'
        elif name == END:
            yield f'<circle class="state" cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
            yield f'<circle class="tip" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        else:
            left, top = x - width / 2, y - BOX_HEIGHT / 2
            yield (
                f'<rect class="state" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BOX_HEIGHT}" rx="6"/>'
                f'<text x="{x:.1f}" y="{y + 4.5:.1f}">{escape(name)}</text>'
            )


def _arrows(arrows: Iterable[tuple[str, str, str]], layout: Layout, tip: str) -> Iterator[str]:
    """Yield each arrow, then the labels, so that no arrow hides a label."""
    labels = []
    for source, target, label in arrows:
        points = _route(source, target, layout)
        yield f'<path class="arrow" marker-end="url(#{tip})" d="{_curve(points)}"/>'
        if label:
            (x1, y1), (x2, y2) = points[0], points[1]
            x, y = x1 + (x2 - x1) * 0.42, y1 + (y2 - y1) * 0.42
            labels.append(f'<text class="label" x="{x:.1f}" y="{y + 4:.1f}">{escape(label)}</text>')
    yield from labels


def _route(source: str, target: str, layout: Layout) -> list[Point]:
    """Return the points of an arrow from the border of one state to the border of the other."""
    turned = (source, target) in layout.reversed
    upper, lower = (target, source) if turned else (source, target)
    # An arrow up beside one down between the same two states is moved aside, so that both are seen.
    aside = 11.0 if turned else 0.0
    (x1, y1), (x2, y2) = _center(layout, upper), _center(layout, lower)
    bends = [_center(layout, name) for name in layout.bends.get((upper, lower), [])]
    half = BOX_HEIGHT / 2
    points = [(x1 + aside, y1 + half), *((x + aside, y) for x, y in bends), (x2 + aside, y2 - half)]
    return points[::-1] if turned else points


def _curve(points: list[Point]) -> str:
    """Return a path through the points with vertical tangents."""
    parts = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        parts.append(f"C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}")
    return " ".join(parts)
