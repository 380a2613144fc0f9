"""Frames of log stores and APIs: each module finds the lines in one kind of JSON response.

`READERS` has, by the member of a JSON object that marks the response, the function that yields its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.line import Line
from faultbridge.decode.frames.stores import aws_output, insights, loki, otlp, splunk

_MAX_DEPTH = 8
READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Line]]] = {
    **aws_output.READERS,
    **loki.READERS,
    **otlp.READERS,
    **splunk.READERS,
}


def stored_lines(document: object, depth: int = 0, node: str | None = None) -> Iterator[Line]:
    """Yield the log lines in the JSON response of an API or a log store, or nothing for other documents.

    `depth` is the number of JSON values that contain `document`. The search ends at a depth of `_MAX_DEPTH`. `node` is
    the node that a resource of OpenTelemetry around `document` names.
    """
    if isinstance(document, dict):
        node = otlp.host_of(document) or node
        for member, read in READERS.items():
            if member in document:
                yield from (line.within(Line("", node=node)) for line in read(document))
        document = list(document.values())
    if isinstance(document, list) and depth < _MAX_DEPTH:
        inner = [item for item in document if isinstance(item, dict | list)]
        row = insights.row_of_cells(inner) if inner else None
        if row is not None:
            yield row
            return
        for item in inner:
            yield from stored_lines(item, depth + 1, node)
